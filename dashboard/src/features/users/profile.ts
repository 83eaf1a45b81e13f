/** A user's profile in the editor. `properties` contains only the properties to change. */
export interface Fields {
  name: string;
  email: string;
  properties: unknown;
}

/** Returns the request body. Only changed fields are sent, because `name` and `email` take precedence over properties. */
export function profileOf({ name, email, properties }: Partial<Fields>) {
  return {
    ...(name !== undefined && { name: name || null }),
    ...(email !== undefined && { email: email || null }),
    ...(properties !== undefined && { properties: properties as Record<string, unknown> }),
  };
}

/** Fields of the form that adds a user. */
export interface NewUser {
  userId: string;
  email: string;
  name: string;
  /** Properties other than name and email. */
  properties: unknown;
}

/** Returns the body of an identify request. `email` and `name` take precedence over properties of the same name. */
export function identifyInput({ userId, email, name, properties }: NewUser) {
  return {
    userId,
    properties: {
      ...(properties as Record<string, unknown>),
      ...(email !== '' && { email }),
      ...(name !== '' && { name }),
    },
  };
}
