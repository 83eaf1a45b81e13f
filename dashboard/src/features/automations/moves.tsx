import { Button } from '@mantine/core';
import { t } from '../../text';
import { MOVES, type Move, type LocatedStep, targetOf } from './arrangement';
import type { Step } from './step';

const SIGNS: Record<Move, string> = { up: '↑', down: '↓', into: '↳', out: '↰', previousBranch: '←', nextBranch: '→' };

/** Keys that, with Alt, move a step. The first possible move is made. */
export const KEYS: Record<string, Move[]> = {
  ArrowUp: ['up'],
  ArrowDown: ['down'],
  ArrowRight: ['into', 'nextBranch'],
  ArrowLeft: ['previousBranch', 'out'],
};

/** Disables a button at the end of a list without losing the focus, for keyboard users who moved a step there. */
export function disabledAtEnd(atEnd: boolean) {
  return { 'aria-disabled': atEnd, 'data-disabled': atEnd || undefined };
}

interface Props {
  steps: readonly Step[];
  located: LocatedStep;
  onMove: (move: Move) => void;
}

/** Buttons that move a step. */
export function Moves({ steps, located, onMove }: Props) {
  return MOVES.map((move) => (
    <Button
      key={move}
      size="compact-xs"
      variant="default"
      {...disabledAtEnd(targetOf(steps, located, move) === null)}
      aria-label={t.canvas.moves[move]}
      title={t.canvas.moves[move]}
      onClick={() => onMove(move)}
    >
      {SIGNS[move]}
    </Button>
  ));
}
