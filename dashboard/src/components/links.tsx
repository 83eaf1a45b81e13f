import { Anchor, type AnchorProps, Button, type ButtonProps, NavLink, type NavLinkProps } from '@mantine/core';
import { createLink } from '@tanstack/react-router';
import { type ComponentPropsWithoutRef, forwardRef } from 'react';

/** A link to another screen. */
export const ScreenLink = createLink(
  forwardRef<HTMLAnchorElement, AnchorProps & Omit<ComponentPropsWithoutRef<'a'>, keyof AnchorProps>>((props, ref) => (
    <Anchor ref={ref} {...props} />
  )),
);

/** A link with the style of a button. */
export const ButtonLink = createLink(
  forwardRef<HTMLAnchorElement, ButtonProps & Omit<ComponentPropsWithoutRef<'a'>, keyof ButtonProps>>((props, ref) => (
    <Button component="a" ref={ref} {...props} />
  )),
);

/** A link in the navigation. */
export const NavigationLink = createLink(
  forwardRef<HTMLAnchorElement, NavLinkProps & Omit<ComponentPropsWithoutRef<'a'>, keyof NavLinkProps>>(
    (props, ref) => <NavLink component="a" ref={ref} {...props} />,
  ),
);
