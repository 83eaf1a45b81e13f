export { Client, type IdentifyOptions } from './client';
export { Content, type InboxItem, type NewsItem } from './content';
export type { CartItem, Checkout, Order, Product } from './ecommerce';
export { Facade } from './facade';
export type { Properties } from './items';
export { type Options, type Settings, settings } from './options';
export type { Answer, Platform, RequestOptions, Signals, Store } from './platform';
export { PushLink } from './push';
export { uuids } from './uuid';
