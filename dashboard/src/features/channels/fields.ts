import type { Schemas } from '../../api/client';
import { t } from '../../text';

type Input = Schemas['ChannelsInput'];

export interface Field {
  /** As `PUT /channels` takes it. */
  name: keyof Input & string;
  /** As `GET /channels` tells it; secrets are told nowhere. */
  told?: string;
  label: string;
  kind: 'text' | 'number' | 'secret' | 'secret-text' | 'choice';
  options?: Array<{ value: string; label: string }>;
}

const providers = [
  { value: '', label: t.channels.none },
  ...Object.entries(t.channels.providers).map(([value, label]) => ({ value, label })),
];

export const EMAIL: Field[] = [
  { name: 'emailProvider', told: 'provider', label: t.channels.provider, kind: 'choice', options: providers },
  { name: 'mailproviderFromEmail', told: 'fromEmail', label: t.channels.from, kind: 'text' },
  { name: 'emailFromName', told: 'fromName', label: t.channels.fromName, kind: 'text' },
  { name: 'mailproviderApiKey', label: t.channels.apiKey, kind: 'secret' },
  { name: 'smtpHost', told: 'smtpHost', label: t.channels.host, kind: 'text' },
  { name: 'smtpPort', told: 'smtpPort', label: t.channels.port, kind: 'number' },
  {
    name: 'smtpSecurity',
    told: 'smtpSecurity',
    label: t.channels.security,
    kind: 'choice',
    options: [
      { value: '', label: t.channels.byDefault },
      ...Object.entries(t.channels.securities).map(([value, label]) => ({ value, label })),
    ],
  },
  { name: 'smtpUsername', told: 'smtpUsername', label: t.channels.user, kind: 'text' },
  { name: 'smtpPassword', label: t.channels.password, kind: 'secret' },
  { name: 'emailFallback', told: 'fallback', label: t.channels.fallback, kind: 'choice', options: providers },
];

export const PUSH: Field[] = [
  { name: 'iosPushKeyId', told: 'iosPushKeyId', label: t.channels.keyId, kind: 'text' },
  { name: 'iosPushTeamId', told: 'iosPushTeamId', label: t.channels.teamId, kind: 'text' },
  { name: 'iosPushPrivateKey', label: t.channels.privateKey, kind: 'secret-text' },
  { name: 'iosPushBundleId', told: 'iosPushBundleId', label: t.channels.bundleId, kind: 'text' },
  {
    name: 'iosPushEnvironment',
    told: 'iosPushEnvironment',
    label: t.channels.environment,
    kind: 'choice',
    options: [
      { value: '', label: t.channels.none },
      { value: 'production', label: t.channels.production },
      { value: 'sandbox', label: t.channels.sandbox },
    ],
  },
  { name: 'pushGatewayServerKey', label: t.channels.gateway, kind: 'secret-text' },
  { name: 'pushProviderAppId', told: 'pushProviderAppId', label: t.channels.appId, kind: 'text' },
  { name: 'pushProviderRestKey', label: t.channels.restKey, kind: 'secret' },
];

export const SMS: Field[] = [
  { name: 'smsAccountId', told: 'accountId', label: t.channels.accountId, kind: 'text' },
  { name: 'smsAuthToken', label: t.channels.token, kind: 'secret' },
  { name: 'smsFromNumber', told: 'fromNumber', label: t.channels.number, kind: 'text' },
];

export type Values = Record<string, string>;

/** The fields as they are stored: secrets are empty, for nobody is told them. */
export function valuesOf(fields: Field[], told: object): Values {
  const known = told as Record<string, unknown>;
  return Object.fromEntries(
    fields.map((field) => [
      field.name,
      field.told && known[field.told] !== null && known[field.told] !== undefined ? String(known[field.told]) : '',
    ]),
  );
}

/** What has changed, as the API takes it; a secret that nobody typed stays as it is stored. */
export function changesOf(fields: Field[], before: Values, now: Values): Input {
  const changed = fields.filter(({ name }) => now[name] !== before[name]);
  return Object.fromEntries(
    changed.map(({ name, kind }) => [
      name,
      kind === 'number' && now[name] !== '' ? Number(now[name]) : (now[name] ?? ''),
    ]),
  ) as Input;
}
