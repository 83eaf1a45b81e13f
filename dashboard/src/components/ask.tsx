import { Button, type ButtonProps, Group, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { t } from '../text';
import { Failure } from './failure';
import { useIsHere } from './is-here';

interface Props {
  /** Of the button that opens the question, and of the one that does it. */
  label: string;
  title: string;
  /** What goes. */
  children: ReactNode;
  /** What must be typed first; never empty, for that asks for nothing. */
  typed?: string;
  size?: ButtonProps['size'];
  disabled?: boolean;
  act: () => Promise<unknown>;
  /** Also where whoever asked for it has left meanwhile: then they are not `here`, and stay where they are. */
  onDone?: (isHere: boolean) => void;
}

/** A destructive act: it asks, and names what goes. */
export function Ask({ label, title, children, typed, size = 'xs', disabled, act, onDone }: Props) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState('');
  const isHere = useIsHere();
  const doing = useMutation({
    mutationFn: act,
    onSuccess() {
      setOpen(false);
      setText('');
      onDone?.(isHere());
    },
  });
  const close = () => {
    // What comes of it is seen here.
    if (doing.isPending) return;
    setOpen(false);
    setText('');
    doing.reset();
  };
  return (
    <>
      <Button size={size} variant="default" disabled={disabled} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Modal opened={open} onClose={close} title={title} closeButtonProps={{ 'aria-label': t.close }}>
        <Stack>
          {typeof children === 'string' ? <Text size="sm">{children}</Text> : children}
          {typed !== undefined && (
            <TextInput
              label={t.ask.type(typed)}
              value={text}
              onChange={(event) => setText(event.currentTarget.value)}
              autoComplete="off"
            />
          )}
          <Failure error={doing.error} />
          <Group justify="flex-end">
            <Button variant="default" disabled={doing.isPending} onClick={close}>
              {t.cancel}
            </Button>
            <Button
              color="red.9"
              loading={doing.isPending}
              disabled={typed !== undefined && text !== typed}
              onClick={() => doing.mutate()}
            >
              {label}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
