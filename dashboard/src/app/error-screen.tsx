import { Button, Container, Stack, Title } from '@mantine/core';
import { Failure } from '../components/failure';
import { t } from '../text';

/** Error page: the server is unreachable, a newer version replaced the script files, or rendering failed. */
export function ErrorScreen({ error }: { error: unknown }) {
  return (
    <Container size="xs" py="xl">
      <Stack align="flex-start">
        <Title order={1} size="h3">
          {t.broken.title}
        </Title>
        <Failure error={error} />
        <Button onClick={() => location.reload()}>{t.broken.reload}</Button>
      </Stack>
    </Container>
  );
}
