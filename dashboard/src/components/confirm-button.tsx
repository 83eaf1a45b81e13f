import { Button, type ButtonProps, Group, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { t } from '../text';
import { Failure } from './failure';
import { useIsMounted } from './is-mounted';

interface Props {
  /** Label of the button that opens the dialog, and of the button that confirms. */
  label: string;
  title: string;
  /** Names what is affected. */
  children: ReactNode;
  /** Text that must be typed to confirm. It must not be empty. */
  confirmationText?: string;
  size?: ButtonProps['size'];
  disabled?: boolean;
  action: () => Promise<unknown>;
  /** Called on success, also if the screen has been left in the meantime; `isMounted` is false then, so do not navigate. */
  onDone?: (isMounted: boolean) => void;
}

/** A button for a destructive action, with a confirmation dialog. */
export function ConfirmButton({
  label,
  title,
  children,
  confirmationText,
  size = 'xs',
  disabled,
  action,
  onDone,
}: Props) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState('');
  const isMounted = useIsMounted();
  const running = useMutation({
    mutationFn: action,
    onSuccess() {
      setOpen(false);
      setText('');
      onDone?.(isMounted());
    },
  });
  const close = () => {
    // The dialog shows the result, so it stays open until there is one.
    if (running.isPending) return;
    setOpen(false);
    setText('');
    running.reset();
  };
  return (
    <>
      <Button size={size} variant="default" disabled={disabled} onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Modal opened={open} onClose={close} title={title} closeButtonProps={{ 'aria-label': t.close }}>
        <Stack>
          {typeof children === 'string' ? <Text size="sm">{children}</Text> : children}
          {confirmationText !== undefined && (
            <TextInput
              label={t.confirm.type(confirmationText)}
              value={text}
              onChange={(event) => setText(event.currentTarget.value)}
              autoComplete="off"
            />
          )}
          <Failure error={running.error} />
          <Group justify="flex-end">
            <Button variant="default" disabled={running.isPending} onClick={close}>
              {t.cancel}
            </Button>
            <Button
              color="red.9"
              loading={running.isPending}
              disabled={confirmationText !== undefined && text !== confirmationText}
              onClick={() => running.mutate()}
            >
              {label}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}
