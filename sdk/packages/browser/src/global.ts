import type { Rekindle } from '../../web/src/index';

export type {
  CartItem,
  Checkout,
  Drop,
  DropReason,
  IdentifyOptions,
  InboxChange,
  InboxItem,
  NewsItem,
  Order,
  Product,
  Properties,
  Rekindle,
  WebOptions,
} from '../../web/src/index';

declare global {
  /** Created by the script. */
  var rekindle: Rekindle;
}
