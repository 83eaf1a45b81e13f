import { ApiFailure } from '../api/failure';
import { t } from '../text';
import { textOf } from './reasons';

/**
 * Labels of a form's fields by their API names. The key of a list's entries ends in `[]`, such as `variants[]`; their label is
 * a function of the entry's number.
 */
export type FieldLabels = Readonly<Record<string, string | ((number: number) => string)>>;

/** Names a field of the API in words; undefined if the form does not have the field. */
export type NameField = (field: string) => string | undefined;

const RULE_LISTS = new Set(['rules', 'where', 'any', 'all', 'entryRules', 'exitRules', 'triggerFilter']);

/** Joins the names of a field and of those that contain it, the outermost first. */
export function joinNames(...names: string[]): string {
  return names.join(' › ');
}

/** Removes an example or a unit in parentheses from the end of a label. */
function withoutHint(label: string): string {
  return label.replace(/ \([^)]*\)$/, '');
}

/** Names a field and those that contain it; undefined if the outermost has no label. */
export function fieldName(field: string, labels: FieldLabels): string | undefined {
  const names: string[] = [];
  let path = '';
  let list = '';
  // `rules[0].value` has the parts `rules`, `[0]` and `value`.
  for (const part of field.match(/\[\d+\]|[^.[\]]+/g) ?? []) {
    const index = /^\[(\d+)\]$/.exec(part)?.[1];
    path = index === undefined ? [path, part].filter(Boolean).join('.') : `${path}[]`;
    const label = textOf(labels, path);
    if (label === undefined && names.length === 0) return undefined;
    if (index === undefined) {
      names.push(typeof label === 'string' ? label : (textOf(t.rules.parts, part) ?? part));
      list = part;
    } else {
      const entryName = RULE_LISTS.has(list) ? t.rules.rule : t.failure.entry;
      names.push((typeof label === 'function' ? label : entryName)(Number(index) + 1));
    }
  }
  return names.length > 0 ? joinNames(...names.map(withoutHint)) : undefined;
}

/** Returns a function that names the fields of a form. */
export function namesOf(labels: FieldLabels): NameField {
  return (field) => fieldName(field, labels);
}

/** Names a part of a rule by its path in the rule, such as `value.count`. */
export function rulePartName(path: string): string {
  return fieldName(path, t.rules.parts) ?? path;
}

/** Returns an error's message for a notification, with its fields in words. */
export function errorText(error: Error, nameField: NameField): string {
  const problems = error instanceof ApiFailure ? error.details : [];
  if (problems.length === 0) return error.message;
  return problems.map(({ field, message }) => `${nameField(field) ?? field}: ${message}`).join('; ');
}
