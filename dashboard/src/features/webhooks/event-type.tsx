import { CodeName } from '../../components/code-name';
import { textOf } from '../../app/reasons';
import { t } from '../../text';

/** The name of a webhook event type, with its code; only the code if the type is unknown. */
export function EventType({ type }: { type: string }) {
  const name = textOf(t.webhooks.types, type);
  if (name === undefined) return type;
  return (
    <>
      {name}
      <CodeName code={type} />
    </>
  );
}
