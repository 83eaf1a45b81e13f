import { BaseEdge, type EdgeProps, Handle, type Node, type NodeProps, Position } from '@xyflow/react';
import {
  type FocusEvent,
  type KeyboardEvent,
  type RefObject,
  createContext,
  useContext,
  useEffect,
  useRef,
} from 'react';
import { identityOf } from '../../app/identity';
import { t } from '../../text';
import { type Arm, type Standing, type Target, armsOf, everyStep, ownerOf } from './arrangement';
import { type Part, type Spot, pathOf } from './layout';
import { type Step, isStepReadable } from './step';
import { stepName } from './step-card';
import { detailOf } from './step-detail';
import type { StepNumbers } from './step-numbers';
import { StepSubject } from './step-subject';

/** What the parts of the canvas are told, and tell. */
export interface CanvasState {
  /** What starts it. */
  trigger: string;
  /** What the step is known by that is open. */
  chosen: string | null;
  /** Where a step that is being dragged would go. */
  near: string | null;
  /** The name of what a spot adds. */
  kind: string;
  /** The part that takes the focus as soon as it is drawn. */
  focus: RefObject<string | null>;
  numbers: Map<string, StepNumbers>;
  /** The id of the text that tells the keys. */
  keys: string;
  where: (standing: Standing) => string;
  between: (target: Target) => string;
  problems: (place: string) => number;
  onChoose: (standing: Standing) => void;
  onKey: (event: KeyboardEvent, standing: Standing) => void;
  onPut: (target: Target) => void;
  onFocus: (part: Part) => void;
}

export const CanvasContext = createContext<CanvasState | null>(null);

export type PartNode = Node<{ part: Part }, 'part'>;
export const NODE_TYPES = { part: PartView };
export const EDGE_TYPES = { line: LineView };

function useCanvas(): CanvasState {
  const state = useContext(CanvasContext);
  if (!state) throw new Error('a part of a canvas stands on one');
  return state;
}

function LineView({ sourceX, sourceY, targetX, targetY }: EdgeProps) {
  return <BaseEdge path={pathOf(sourceX, sourceY, targetX, targetY)} />;
}

function PartView({ data: { part } }: NodeProps<PartNode>) {
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} aria-hidden />
      <Shown part={part} />
      <Handle type="source" position={Position.Bottom} isConnectable={false} aria-hidden />
    </>
  );
}

function Shown({ part }: { part: Part }) {
  const { trigger } = useCanvas();
  switch (part.kind) {
    case 'trigger':
      return <div className="canvas-trigger">{t.canvas.starts(trigger)}</div>;
    case 'end':
      return <div className="canvas-end">{t.canvas.end}</div>;
    case 'arm':
      return <ArmName step={part.step} arm={part.arm} />;
    case 'spot':
      return <SpotButton part={part} />;
    case 'step':
      return <StepButton part={part} standing={part.standing} />;
  }
}

export function armName(step: Step, arm: Arm): string {
  if (arm.kind !== 'way') return t.steps[arm.kind];
  const found = step.branches?.[arm.number - 1];
  return step.type === 'SPLIT'
    ? t.canvas.share(arm.number, found?.weight ?? 0)
    : t.canvas.ruled(arm.number, found?.rules?.length ?? 0);
}

function ArmName({ step, arm }: { step: Step; arm: Arm }) {
  const { numbers } = useCanvas();
  const taken = numbers.get(identityOf(step))?.arms[arm.at.replace('.steps', '')];
  return (
    <div className="canvas-arm">
      {armName(step, arm)}
      {taken !== undefined && ` · ${t.number(taken)}`}
    </div>
  );
}

/** Takes the focus where it is meant for this part. */
function useFocus(id: string): RefObject<HTMLButtonElement | null> {
  const { focus } = useCanvas();
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (focus.current !== id) return;
    focus.current = null;
    button.current?.focus();
  });
  return button;
}

/** Whether the focus is one that is seen: what is pressed by a pointer stays under it. */
function isShown({ currentTarget }: FocusEvent): boolean {
  return currentTarget.matches(':focus-visible');
}

function SpotButton({ part }: { part: Spot }) {
  const { kind, near, between, onPut, onFocus } = useCanvas();
  const button = useFocus(part.id);
  return (
    <button
      ref={button}
      type="button"
      className="canvas-spot"
      data-near={near === part.id || undefined}
      aria-label={t.canvas.put(kind, between(part.target))}
      title={t.canvas.put(kind, between(part.target))}
      onClick={() => onPut(part.target)}
      onFocus={(event) => isShown(event) && onFocus(part)}
    >
      +
    </button>
  );
}

function StepButton({ part, standing }: { part: Part; standing: Standing }) {
  const { chosen, numbers, keys, where, problems, onChoose, onKey, onFocus } = useCanvas();
  const button = useFocus(part.id);
  const { step, place } = standing;
  const found = numbers.get(part.id);
  const wrong = problems(place) + (isStepReadable(step) ? 0 : 1);
  const counts = found && t.canvas.counts(t.number(found.entered), found.waiting > 0 ? t.number(found.waiting) : null);
  return (
    <button
      ref={button}
      type="button"
      className="canvas-step"
      data-wrong={wrong > 0 || undefined}
      aria-pressed={chosen === part.id}
      aria-describedby={keys}
      onClick={() => onChoose(standing)}
      onKeyDown={(event) => onKey(event, standing)}
      onFocus={(event) => isShown(event) && onFocus(part)}
    >
      <span className="canvas-name">{stepName(step)}</span>
      <span className="canvas-detail">
        {detailOf(step)}
        <StepSubject step={step} />
      </span>
      {wrong > 0 && <span className="canvas-wrong">{t.canvas.wrong}</span>}
      {counts && <span className="canvas-counts">{counts}</span>}
      <span className="canvas-where">{where(standing)}</span>
    </button>
  );
}

/** What a list of steps is called: the way that it is, and of which step; null of the outermost. */
export function armOf(steps: readonly Step[], list: string): string | null {
  const owner = ownerOf(list);
  if (!owner) return null;
  for (const { step, place } of everyStep(steps)) {
    const arm = place === owner.place ? armsOf(step).find(({ at }) => at === owner.at) : undefined;
    if (arm) return t.canvas.armOf(armName(step, arm), stepName(step));
  }
  return null;
}
