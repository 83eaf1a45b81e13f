import { execFileSync } from 'node:child_process';
import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type Server, createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A subscription as a browser writes it. */
export interface Subscription {
  endpoint: string;
  expirationTime: null;
  keys: { p256dh: string; auth: string };
}

interface Owner {
  ecdh: ReturnType<typeof createECDH>;
  auth: Buffer;
  gone: boolean;
  /** What came, decrypted. */
  taken: Array<Record<string, unknown>>;
}

/** A push service and the browsers behind it: it takes what the product really encrypts, and decrypts it as they do. */
export class PushService {
  private readonly owners = new Map<string, Owner>();
  private constructor(
    private readonly server: Server,
    private readonly directory: string,
  ) {}

  static async open(): Promise<PushService> {
    const directory = mkdtempSync(join(tmpdir(), 'rekindle-push-'));
    certify(directory);
    const [key, cert] = ['leaf.key', 'leaf.pem'].map((name) => readFileSync(join(directory, name)));
    const server = createServer({ key, cert });
    const service = new PushService(server, directory);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () =>
        response.writeHead(service.take(request.url ?? '', request.headers, Buffer.concat(chunks))).end(),
      );
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return service;
  }

  /** The authority that the product must trust to call it. */
  get authority(): string {
    return join(this.directory, 'ca.pem');
  }

  subscribe(): Subscription {
    const ecdh = createECDH('prime256v1');
    const p256dh = ecdh.generateKeys('base64url', 'uncompressed');
    const auth = randomBytes(16);
    const path = `/push/${randomBytes(8).toString('hex')}`;
    this.owners.set(path, { ecdh, auth, gone: false, taken: [] });
    const endpoint = `https://localhost:${(this.server.address() as AddressInfo).port}${path}`;
    return { endpoint, expirationTime: null, keys: { p256dh, auth: auth.toString('base64url') } };
  }

  taken({ endpoint }: Subscription): Array<Record<string, unknown>> {
    return this.owners.get(new URL(endpoint).pathname)?.taken ?? [];
  }

  /** The browser has given it up. */
  end({ endpoint }: Subscription): void {
    const owner = this.owners.get(new URL(endpoint).pathname);
    if (owner) owner.gone = true;
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  private take(path: string, headers: Record<string, string | string[] | undefined>, body: Buffer): number {
    const owner = this.owners.get(path);
    if (!owner || owner.gone) return 410;
    if (headers['content-encoding'] !== 'aes128gcm' || !isSigned(String(headers.authorization))) return 403;
    owner.taken.push(JSON.parse(decrypt(owner, body)) as Record<string, unknown>);
    return 201;
  }
}

/** RFC 8188 and 8291, from the receiver's side. */
function decrypt({ ecdh, auth }: Owner, body: Buffer): string {
  const salt = body.subarray(0, 16);
  const length = body[20]!;
  const [sender, record] = [body.subarray(21, 21 + length), body.subarray(21 + length)];
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), ecdh.getPublicKey(), sender]);
  const input = Buffer.from(hkdfSync('sha256', ecdh.computeSecret(sender), auth, info, 32));
  const [key, nonce] = [
    ['aes128gcm', 16],
    ['nonce', 12],
  ].map(([name, bytes]) => Buffer.from(hkdfSync('sha256', input, salt, `Content-Encoding: ${name}\0`, Number(bytes))));
  const decipher = createDecipheriv('aes-128-gcm', key!, nonce!);
  decipher.setAuthTag(record.subarray(-16));
  const padded = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()]);
  return padded.subarray(0, padded.lastIndexOf(2)).toString();
}

/** RFC 8292: signed with the key that it names. */
function isSigned(authorization: string): boolean {
  const [, token = '', key = ''] = /^vapid t=([^,]+), k=(.+)$/.exec(authorization) ?? [];
  const point = Buffer.from(key, 'base64url');
  if (point.length !== 65) return false;
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((part) => part.toString('base64url'));
  const publicKey = createPublicKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x, y } });
  const end = token.lastIndexOf('.');
  const signature = Buffer.from(token.slice(end + 1), 'base64url');
  return verify('sha256', Buffer.from(token.slice(0, end)), { key: publicKey, dsaEncoding: 'ieee-p1363' }, signature);
}

/** An authority, and its certificate for `localhost`. */
function certify(directory: string): void {
  const config = (name: string, extensions: string) => {
    const text = `[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN=${name}\n[ext]\n${extensions}\n`;
    writeFileSync(join(directory, `${name}.cnf`), text);
    return `${name}.cnf`;
  };
  const make = (name: string, file: string, ...more: string[]) => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`];
    execFileSync('openssl', ['req', '-x509', '-days', '2', ...key, '-out', `${name}.pem`, '-config', file, ...more], {
      cwd: directory,
      stdio: 'pipe',
    });
  };
  make('ca', config('test-authority', 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign'));
  const leaf =
    'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\nsubjectAltName=DNS:localhost';
  make('leaf', config('localhost', leaf), '-CA', 'ca.pem', '-CAkey', 'ca.key');
}
