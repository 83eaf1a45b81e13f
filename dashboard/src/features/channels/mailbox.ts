import type { Schemas } from '../../api/client';

/** This machine, by its names; and the mailbox's beside the programs in containers. */
const HERE = new Set(['127.0.0.1', '::1', 'localhost', 'mailbox']);
/** What the default set-up's sender ends in: no mail server outside takes mail from there. */
const TRIAL_SENDER = '@rekindle.localhost';

/** A mail server on this machine. */
export interface LocalServer {
  /** `host:port`, or the host where no port is set. */
  server: string;
  /** It is the mailbox of the default set-up, from which nothing goes on. Any other may be a relay. */
  isMailbox: boolean;
}

/** The mail server on this machine that a project's email goes to; null where it goes anywhere else. */
export function localServer({
  provider,
  fromEmail,
  smtpHost,
  smtpPort,
}: Schemas['Channels']['email']): LocalServer | null {
  if (provider !== 'SMTP' || !smtpHost || !HERE.has(smtpHost)) return null;
  return {
    server: smtpPort ? `${smtpHost}:${smtpPort}` : smtpHost,
    isMailbox: fromEmail?.endsWith(TRIAL_SENDER) ?? false,
  };
}
