import { execFileSync } from 'node:child_process';
import { createDecipheriv, createECDH, createPublicKey, hkdfSync, randomBytes, verify } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type Server, createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A subscription in the format of browsers. */
export interface Subscription {
  endpoint: string;
  expirationTime: null;
  keys: { p256dh: string; auth: string };
}

interface Subscriber {
  ecdh: ReturnType<typeof createECDH>;
  auth: Buffer;
  gone: boolean;
  /** Received messages, decrypted. */
  received: Array<Record<string, unknown>>;
}

/** A push service with its browsers: accepts the product's encrypted messages and decrypts them as browsers do. */
export class PushService {
  private readonly subscribers = new Map<string, Subscriber>();
  private constructor(
    private readonly server: Server,
    private readonly directory: string,
  ) {}

  static async open(): Promise<PushService> {
    const directory = mkdtempSync(join(tmpdir(), 'rekindle-push-'));
    createCertificates(directory);
    const [key, cert] = ['leaf.key', 'leaf.pem'].map((name) => readFileSync(join(directory, name)));
    const server = createServer({ key, cert });
    const service = new PushService(server, directory);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () =>
        response.writeHead(service.accept(request.url ?? '', request.headers, Buffer.concat(chunks))).end(),
      );
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return service;
  }

  /** The certificate authority that the product must trust. */
  get authority(): string {
    return join(this.directory, 'ca.pem');
  }

  subscribe(): Subscription {
    const ecdh = createECDH('prime256v1');
    const p256dh = ecdh.generateKeys('base64url', 'uncompressed');
    const auth = randomBytes(16);
    const path = `/push/${randomBytes(8).toString('hex')}`;
    this.subscribers.set(path, { ecdh, auth, gone: false, received: [] });
    const endpoint = `https://localhost:${(this.server.address() as AddressInfo).port}${path}`;
    return { endpoint, expirationTime: null, keys: { p256dh, auth: auth.toString('base64url') } };
  }

  received({ endpoint }: Subscription): Array<Record<string, unknown>> {
    return this.subscribers.get(new URL(endpoint).pathname)?.received ?? [];
  }

  /** Ends the subscription, as a browser does. */
  end({ endpoint }: Subscription): void {
    const subscriber = this.subscribers.get(new URL(endpoint).pathname);
    if (subscriber) subscriber.gone = true;
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  private accept(path: string, headers: Record<string, string | string[] | undefined>, body: Buffer): number {
    const subscriber = this.subscribers.get(path);
    if (!subscriber || subscriber.gone) return 410;
    if (headers['content-encoding'] !== 'aes128gcm' || !isSigned(String(headers.authorization))) return 403;
    subscriber.received.push(JSON.parse(decrypt(subscriber, body)) as Record<string, unknown>);
    return 201;
  }
}

/** Decrypts according to RFC 8188 and 8291. */
function decrypt({ ecdh, auth }: Subscriber, body: Buffer): string {
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

/** Whether it is signed with the key that it contains (RFC 8292). */
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

/** Creates a certificate authority and its certificate for `localhost`. */
function createCertificates(directory: string): void {
  const config = (name: string, extensions: string) => {
    const text = `[req]\ndistinguished_name=dn\nx509_extensions=ext\nprompt=no\n[dn]\nCN=${name}\n[ext]\n${extensions}\n`;
    writeFileSync(join(directory, `${name}.cnf`), text);
    return `${name}.cnf`;
  };
  const create = (name: string, file: string, ...more: string[]) => {
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', `${name}.key`];
    execFileSync('openssl', ['req', '-x509', '-days', '2', ...key, '-out', `${name}.pem`, '-config', file, ...more], {
      cwd: directory,
      stdio: 'pipe',
    });
  };
  create('ca', config('test-authority', 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign'));
  const leaf =
    'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\nsubjectAltName=DNS:localhost';
  create('leaf', config('localhost', leaf), '-CA', 'ca.pem', '-CAkey', 'ca.key');
}
