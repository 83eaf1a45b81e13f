import { Button, Container, Stack, Title } from '@mantine/core';
import { Failure } from '../components/failure';
import { t } from '../text';

/** A screen that could not be shown: the server did not answer, a newer version took its files' place, or we erred. */
export function Broken({ error }: { error: unknown }) {
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
