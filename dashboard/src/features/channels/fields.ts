import type { Schemas } from '../../api/client';
import { t } from '../../text';

type Input = Schemas['ChannelsInput'];

export interface Field {
  /** Field name in `PUT /channels`. */
  name: keyof Input & string;
  /** Field name in `GET /channels`; undefined for secrets, which are never returned. */
  source?: string;
  label: string;
  kind: 'text' | 'number' | 'secret' | 'secret-text' | 'choice';
  options?: Array<{ value: string; label: string }>;
}

const providers = [
  { value: '', label: t.channels.none },
  ...Object.entries(t.channels.providers).map(([value, label]) => ({ value, label })),
];

export const EMAIL: Field[] = [
  { name: 'emailProvider', source: 'provider', label: t.channels.provider, kind: 'choice', options: providers },
  { name: 'mailproviderFromEmail', source: 'fromEmail', label: t.channels.from, kind: 'text' },
  { name: 'emailFromName', source: 'fromName', label: t.channels.fromName, kind: 'text' },
  { name: 'mailproviderApiKey', label: t.channels.apiKey, kind: 'secret' },
  { name: 'smtpHost', source: 'smtpHost', label: t.channels.host, kind: 'text' },
  { name: 'smtpPort', source: 'smtpPort', label: t.channels.port, kind: 'number' },
  {
    name: 'smtpSecurity',
    source: 'smtpSecurity',
    label: t.channels.security,
    kind: 'choice',
    options: [
      { value: '', label: t.channels.byDefault },
      ...Object.entries(t.channels.securities).map(([value, label]) => ({ value, label })),
    ],
  },
  { name: 'smtpUsername', source: 'smtpUsername', label: t.channels.user, kind: 'text' },
  { name: 'smtpPassword', label: t.channels.password, kind: 'secret' },
  { name: 'emailFallback', source: 'fallback', label: t.channels.fallback, kind: 'choice', options: providers },
];

export const PUSH: Field[] = [
  { name: 'iosPushKeyId', source: 'iosPushKeyId', label: t.channels.keyId, kind: 'text' },
  { name: 'iosPushTeamId', source: 'iosPushTeamId', label: t.channels.teamId, kind: 'text' },
  { name: 'iosPushPrivateKey', label: t.channels.privateKey, kind: 'secret-text' },
  { name: 'iosPushBundleId', source: 'iosPushBundleId', label: t.channels.bundleId, kind: 'text' },
  {
    name: 'iosPushEnvironment',
    source: 'iosPushEnvironment',
    label: t.channels.environment,
    kind: 'choice',
    options: [
      { value: '', label: t.channels.none },
      { value: 'production', label: t.channels.production },
      { value: 'sandbox', label: t.channels.sandbox },
    ],
  },
  { name: 'pushGatewayServerKey', label: t.channels.gateway, kind: 'secret-text' },
  { name: 'pushProviderAppId', source: 'pushProviderAppId', label: t.channels.appId, kind: 'text' },
  { name: 'pushProviderRestKey', label: t.channels.restKey, kind: 'secret' },
];

export const SMS: Field[] = [
  { name: 'smsAccountId', source: 'accountId', label: t.channels.accountId, kind: 'text' },
  { name: 'smsAuthToken', label: t.channels.token, kind: 'secret' },
  { name: 'smsFromNumber', source: 'fromNumber', label: t.channels.number, kind: 'text' },
];

export type Values = Record<string, string>;

/** Returns the form values of a stored configuration. Secrets are empty, because the API never returns them. */
export function valuesOf(fields: Field[], stored: object): Values {
  const source = stored as Record<string, unknown>;
  return Object.fromEntries(
    fields.map((field) => [
      field.name,
      field.source && source[field.source] !== null && source[field.source] !== undefined
        ? String(source[field.source])
        : '',
    ]),
  );
}

/** Returns the changed fields for the API. A secret that was not typed keeps its stored value. */
export function changesOf(fields: Field[], before: Values, now: Values): Input {
  const changed = fields.filter(({ name }) => now[name] !== before[name]);
  return Object.fromEntries(
    changed.map(({ name, kind }) => [
      name,
      kind === 'number' && now[name] !== '' ? Number(now[name]) : (now[name] ?? ''),
    ]),
  ) as Input;
}
