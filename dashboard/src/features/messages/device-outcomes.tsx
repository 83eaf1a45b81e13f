import type { Schemas } from '../../api/client';
import { textOf } from '../../app/reasons';
import { Listing } from '../../components/listing';
import { t } from '../../text';

type DeviceOutcome = NonNullable<Schemas['Message']['devices']>[number];

/** The outcome of a push message for each of the user's devices. */
export function DeviceOutcomes({ devices }: { devices: DeviceOutcome[] }) {
  return (
    <Listing
      label={t.messages.devices}
      rows={devices.map((device, index) => ({ ...device, index }))}
      id={(device) => String(device.index)}
      columns={[
        { title: t.messages.platform, cell: (device) => t.devices.platforms[device.platform] },
        { title: t.messages.provider, cell: (device) => device.provider ?? '–' },
        { title: t.messages.outcome, cell: (device) => textOf(t.deviceOutcomes, device.outcome) ?? device.outcome },
        { title: t.messages.reason, cell: (device) => device.reason ?? '–' },
      ]}
    />
  );
}
