import type { Schemas } from '../../api/client';

/** Host names of this machine, and of the mailbox in the Docker Compose network. */
const LOCAL_HOSTS = new Set(['127.0.0.1', '::1', 'localhost', 'mailbox']);
/** Domain of the default sender. External mail servers reject mail from it. */
const DEFAULT_SENDER_DOMAIN = '@rekindle.localhost';

/** A mail server on this machine. */
export interface LocalServer {
  /** `host:port`, or the host where no port is set. */
  server: string;
  /** Whether it is the mailbox of the default installation, which forwards nothing. Other servers may be relays. */
  isMailbox: boolean;
}

/** Returns the mail server on this machine that receives a project's email; null for any other server. */
export function localServer({
  provider,
  fromEmail,
  smtpHost,
  smtpPort,
}: Schemas['Channels']['email']): LocalServer | null {
  if (provider !== 'SMTP' || !smtpHost || !LOCAL_HOSTS.has(smtpHost)) return null;
  return {
    server: smtpPort ? `${smtpHost}:${smtpPort}` : smtpHost,
    isMailbox: fromEmail?.endsWith(DEFAULT_SENDER_DOMAIN) ?? false,
  };
}
