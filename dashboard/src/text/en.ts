import { access } from './en/access';
import { automations } from './en/automations';
import { campaigns } from './en/campaigns';
import { channels } from './en/channels';
import { messages } from './en/messages';
import { overview } from './en/overview';
import { reasons } from './en/reasons';
import { users } from './en/users';
import { segments } from './en/segments';
import { settings } from './en/settings';
import { shell } from './en/shell';
import { statuses } from './en/statuses';
import { templates } from './en/templates';
import { webhooks } from './en/webhooks';

export const en = {
  ...shell,
  ...statuses,
  ...reasons,
  ...overview,
  ...users,
  ...segments,
  ...automations,
  ...campaigns,
  ...templates,
  ...messages,
  ...channels,
  ...access,
  ...settings,
  ...webhooks,
};
