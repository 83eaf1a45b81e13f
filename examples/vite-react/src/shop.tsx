import type { CartItem } from '@rekindle/web';
import { useFeed, useInbox, useRekindle } from '@rekindle/web/react';
import { useEffect, useState } from 'react';

const SHOES: CartItem[] = [
  { productId: 'red-shoes', name: 'Red shoes', price: 49.5, currency: 'EUR', quantity: 1 },
  { productId: 'blue-shoes', name: 'Blue shoes', price: 39.5, currency: 'EUR', quantity: 1 },
];

export function Shop() {
  return (
    <main>
      <h1>Shop</h1>
      <Person />
      <Shelf />
      <Inbox />
      <News />
    </main>
  );
}

function Person() {
  const rekindle = useRekindle();
  const [name, setName] = useState<string | null>(null);
  // The person of before the page was loaded; a server does not know them.
  useEffect(() => setName(rekindle.getUserId()), [rekindle]);
  if (name) {
    const signOut = async () => {
      await rekindle.reset();
      setName(null);
    };
    return (
      <p>
        Hello {name}. <button onClick={() => void signOut()}>Sign out</button> <Notify />
      </p>
    );
  }
  const signIn = (form: FormData) => {
    const user = String(form.get('user'));
    // A project that verifies identities also wants `{ userToken }`, a function that fetches a JWT from your server.
    rekindle.identify(user, { name: user });
    setName(user);
  };
  return (
    <form action={signIn}>
      <input name="user" aria-label="Name" required /> <button>Sign in</button>
    </form>
  );
}

function Notify() {
  const rekindle = useRekindle();
  const [on, setOn] = useState(false);
  useEffect(() => setOn(rekindle.push.isEnabled()), [rekindle]);
  const change = async () => {
    if (on) await rekindle.push.optOut();
    else await rekindle.push.requestPermission();
    setOn(rekindle.push.isEnabled());
  };
  return <button onClick={() => void change()}>{on ? 'No more notifications' : 'Notify me'}</button>;
}

function Shelf() {
  const rekindle = useRekindle();
  const [cart, setCart] = useState<CartItem[]>([]);
  const total = cart.reduce((sum, item) => sum + (item.price ?? 0), 0);
  const add = (item: CartItem) => {
    rekindle.addedToCart(item);
    setCart([...cart, item]);
  };
  const order = () => {
    rekindle.orderCompleted({ orderId: crypto.randomUUID(), total, currency: 'EUR', items: cart });
    setCart([]);
  };
  return (
    <section>
      {SHOES.map((item) => (
        <button key={item.productId} onClick={() => add(item)}>
          {item.name}
        </button>
      ))}
      <button disabled={!cart.length} onClick={order}>
        Order for {total} €
      </button>
    </section>
  );
}

function Inbox() {
  const { items, unread, error, markRead } = useInbox();
  if (error) return <p role="alert">{error.message}</p>;
  return (
    <section aria-label={`Inbox, ${unread} new`}>
      {items.map((item) => (
        <article key={item.id}>
          <h2>{item.title}</h2>
          <p>{item.body}</p>
          {item.readAt ? null : <button onClick={() => void markRead(item.id)}>Read</button>}
        </article>
      ))}
    </section>
  );
}

function News() {
  const { items } = useFeed();
  return (
    <section aria-label="News">
      {items.map((item) => (
        <article key={item.id}>{item.title}</article>
      ))}
    </section>
  );
}
