import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import { useState } from 'react';
import { changesOf, mergeSaved } from '../app/draft';
import { keepIdentities } from '../app/identity';
import { t } from '../text';

export interface Draft<T> {
  value: T;
  /** The value when editing started, or when it was last saved. */
  base: T;
  /** Fields that are not saved yet. */
  changes: Partial<T>;
  isDirty: boolean;
  set: (change: Partial<T>) => void;
  /** Records that `sent` was saved as `stored`. Edits made while saving are kept and remain unsaved. */
  markSaved: (sent: T, stored: T) => void;
  /** Restarts from the stored value and discards all edits. */
  restart: (stored: T) => void;
}

/** State of a form: the edited values and which of them are unsaved. */
export function useDraft<T extends object>(stored: T): Draft<T> {
  const [base, setBase] = useState(stored);
  const [value, setValue] = useState(stored);
  const changes = changesOf(base, value);
  return {
    value,
    base,
    changes,
    isDirty: Object.keys(changes).length > 0,
    set: (change) => setValue((before) => ({ ...before, ...change })),
    markSaved(sent, next) {
      // Keep the React keys of list entries, otherwise the focused field would be remounted.
      keepIdentities(sent, next);
      setBase(next);
      setValue((now) => mergeSaved(now, sent, next));
    },
    restart(next) {
      setBase(next);
      setValue(next);
    },
  };
}

/** Asks for confirmation before navigation discards unsaved changes. */
export function UnsavedChangesGuard({ when }: { when: boolean }) {
  const blocker = useBlocker({ shouldBlockFn: () => when, enableBeforeUnload: () => when, withResolver: true });
  return (
    <LeaveDialog
      opened={blocker.status === 'blocked'}
      onLeave={() => blocker.proceed?.()}
      onStay={() => blocker.reset?.()}
    />
  );
}

export function LeaveDialog({ opened, onLeave, onStay }: { opened: boolean; onLeave: () => void; onStay: () => void }) {
  return (
    <Modal opened={opened} onClose={onStay} title={t.draft.title} closeButtonProps={{ 'aria-label': t.close }}>
      <Stack>
        <Text size="sm">{t.draft.text}</Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onLeave}>
            {t.draft.leave}
          </Button>
          <Button onClick={onStay}>{t.draft.stay}</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
