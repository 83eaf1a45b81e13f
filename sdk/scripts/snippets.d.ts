// Declares the script's global for the scripts of a page, which have no imports.
import type {} from '@rekindle/browser';
