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
import { type Branch, type LocatedStep, type Target, branchesOf, everyStep, parentOf } from './arrangement';
import { type Part, type Spot, linePath } from './layout';
import { type Step, isStepReadable } from './step';
import { stepName } from './step-card';
import { detailOf } from './step-detail';
import type { StepNumbers } from './step-numbers';
import { StepSubject } from './step-subject';

/** State and callbacks that the parts of the canvas share. */
export interface CanvasState {
  /** Description of the trigger. */
  trigger: string;
  /** Identity of the open step. */
  selectedId: string | null;
  /** ID of the spot where the dragged step would be dropped. */
  dropTargetId: string | null;
  /** Name of the step type that a spot inserts. */
  newStepName: string;
  /** ID of the part that takes the focus as soon as it is rendered. */
  focus: RefObject<string | null>;
  numbers: Map<string, StepNumbers>;
  /** ID of the element that describes the keyboard shortcuts. */
  keysId: string;
  describeLocation: (located: LocatedStep) => string;
  describeTarget: (target: Target) => string;
  countProblems: (path: string) => number;
  onSelect: (located: LocatedStep) => void;
  onKey: (event: KeyboardEvent, located: LocatedStep) => void;
  onInsert: (target: Target) => void;
  onFocus: (part: Part) => void;
}

export const CanvasContext = createContext<CanvasState | null>(null);

export type PartNode = Node<{ part: Part }, 'part'>;
export const NODE_TYPES = { part: PartView };
export const EDGE_TYPES = { line: LineView };

function useCanvas(): CanvasState {
  const state = useContext(CanvasContext);
  if (!state) throw new Error('a canvas part must be rendered in a canvas');
  return state;
}

function LineView({ sourceX, sourceY, targetX, targetY }: EdgeProps) {
  return <BaseEdge path={linePath(sourceX, sourceY, targetX, targetY)} />;
}

function PartView({ data: { part } }: NodeProps<PartNode>) {
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} aria-hidden />
      <PartContent part={part} />
      <Handle type="source" position={Position.Bottom} isConnectable={false} aria-hidden />
    </>
  );
}

function PartContent({ part }: { part: Part }) {
  const { trigger } = useCanvas();
  switch (part.kind) {
    case 'trigger':
      return <div className="canvas-trigger">{t.canvas.trigger(trigger)}</div>;
    case 'end':
      return <div className="canvas-end">{t.canvas.end}</div>;
    case 'branch':
      return <BranchLabel step={part.step} branch={part.branch} />;
    case 'spot':
      return <SpotButton part={part} />;
    case 'step':
      return <StepButton part={part} located={part.located} />;
  }
}

export function branchName(step: Step, branch: Branch): string {
  if (branch.kind !== 'numbered') return t.steps[branch.kind];
  const found = step.branches?.[branch.number - 1];
  return step.type === 'SPLIT'
    ? t.canvas.pathWeight(branch.number, found?.weight ?? 0)
    : t.canvas.pathRules(branch.number, found?.rules?.length ?? 0);
}

function BranchLabel({ step, branch }: { step: Step; branch: Branch }) {
  const { numbers } = useCanvas();
  const taken = numbers.get(identityOf(step))?.arms[branch.at.replace('.steps', '')];
  return (
    <div className="canvas-branch">
      {branchName(step, branch)}
      {taken !== undefined && ` · ${t.number(taken)}`}
    </div>
  );
}

/** Returns a ref for a button that takes the focus if this part was requested to. */
function useRequestedFocus(id: string): RefObject<HTMLButtonElement | null> {
  const { focus } = useCanvas();
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (focus.current !== id) return;
    focus.current = null;
    button.current?.focus();
  });
  return button;
}

/** Whether the focus came by keyboard: a part pressed with a pointer must not be scrolled away from under it. */
function isFocusVisible({ currentTarget }: FocusEvent): boolean {
  return currentTarget.matches(':focus-visible');
}

function SpotButton({ part }: { part: Spot }) {
  const { newStepName, dropTargetId, describeTarget, onInsert, onFocus } = useCanvas();
  const button = useRequestedFocus(part.id);
  return (
    <button
      ref={button}
      type="button"
      className="canvas-spot"
      data-drop-target={dropTargetId === part.id || undefined}
      aria-label={t.canvas.insert(newStepName, describeTarget(part.target))}
      title={t.canvas.insert(newStepName, describeTarget(part.target))}
      onClick={() => onInsert(part.target)}
      onFocus={(event) => isFocusVisible(event) && onFocus(part)}
    >
      +
    </button>
  );
}

function StepButton({ part, located }: { part: Part; located: LocatedStep }) {
  const { selectedId, numbers, keysId, describeLocation, countProblems, onSelect, onKey, onFocus } = useCanvas();
  const button = useRequestedFocus(part.id);
  const { step, path } = located;
  const found = numbers.get(part.id);
  const problems = countProblems(path) + (isStepReadable(step) ? 0 : 1);
  const counts = found && t.canvas.counts(t.number(found.entered), found.waiting > 0 ? t.number(found.waiting) : null);
  return (
    <button
      ref={button}
      type="button"
      className="canvas-step"
      data-invalid={problems > 0 || undefined}
      aria-pressed={selectedId === part.id}
      aria-describedby={keysId}
      onClick={() => onSelect(located)}
      onKeyDown={(event) => onKey(event, located)}
      onFocus={(event) => isFocusVisible(event) && onFocus(part)}
    >
      <span className="canvas-name">{stepName(step)}</span>
      <span className="canvas-detail">
        {detailOf(step)}
        <StepSubject step={step} />
      </span>
      {problems > 0 && <span className="canvas-invalid">{t.canvas.invalid}</span>}
      {counts && <span className="canvas-counts">{counts}</span>}
      <span className="canvas-location">{describeLocation(located)}</span>
    </button>
  );
}

/** Describes a list of steps by its branch and step; null for the outermost list. */
export function describeBranch(steps: readonly Step[], list: string): string | null {
  const parent = parentOf(list);
  if (!parent) return null;
  for (const { step, path } of everyStep(steps)) {
    const branch = path === parent.path ? branchesOf(step).find(({ at }) => at === parent.at) : undefined;
    if (branch) return t.canvas.pathOf(branchName(step, branch), stepName(step));
  }
  return null;
}
