/** A person's profile as it is edited: of the properties only those that are to change. */
export interface Fields {
  name: string;
  email: string;
  properties: unknown;
}

/** What the API is told: only what was changed, for a name or an address of its own wins over one among the properties. */
export function profileOf({ name, email, properties }: Partial<Fields>) {
  return {
    ...(name !== undefined && { name: name || null }),
    ...(email !== undefined && { email: email || null }),
    ...(properties !== undefined && { properties: properties as Record<string, unknown> }),
  };
}

/** Somebody who is made known by hand. */
export interface NewPerson {
  userId: string;
  email: string;
  name: string;
  /** Others than these two. */
  properties: unknown;
}

/** What the API is told of them: an address and a name of their own win over those among the properties. */
export function identityInput({ userId, email, name, properties }: NewPerson) {
  return {
    userId,
    properties: {
      ...(properties as Record<string, unknown>),
      ...(email !== '' && { email }),
      ...(name !== '' && { name }),
    },
  };
}
