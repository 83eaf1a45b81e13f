import { Notification, Stack } from '@mantine/core';
import { t } from '../text';
import { dismiss, useNotices } from './notice';

export function Notices() {
  const notices = useNotices();
  return (
    <Stack
      role="status"
      aria-live="polite"
      style={{ position: 'fixed', bottom: 16, right: 16, left: 16, maxWidth: 420, marginLeft: 'auto', zIndex: 400 }}
    >
      {notices.map(({ id, text, bad }) => (
        <Notification
          key={id}
          color={bad ? 'red' : 'teal'}
          withBorder
          onClose={() => dismiss(id)}
          closeButtonProps={{ 'aria-label': t.close }}
        >
          {text}
        </Notification>
      ))}
    </Stack>
  );
}
