import type { Properties } from './items';

export interface Product extends Properties {
  productId: string;
  name?: string;
  price?: number;
  currency?: string;
  category?: string;
}

export interface CartItem extends Product {
  quantity?: number;
}

export interface Checkout extends Properties {
  total?: number;
  currency?: string;
  items?: CartItem[];
}

export interface Order extends Checkout {
  orderId: string;
}
