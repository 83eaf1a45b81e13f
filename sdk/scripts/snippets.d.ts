// What the script has made, for the scripts of a page: they import nothing.
import type {} from '@rekindle/browser';
