import { Modal, type ModalProps } from '@mantine/core';
import { type ReactNode, createContext, useCallback, useContext, useLayoutEffect, useRef, useState } from 'react';
import { t } from '../text';
import { UnsavedChangesGuard, LeaveDialog } from './draft';

const ReportUnsaved = createContext<(isUnsaved: boolean) => void>(() => {});

interface Props {
  opened: boolean;
  title: string;
  size?: ModalProps['size'];
  onClose: () => void;
  /** A form that renders {@link Unsaved} to report unsaved changes. */
  children: ReactNode;
}

/** A form in a modal dialog. Closing it with unsaved changes asks for confirmation. */
export function EditorModal({ opened, title, size, onClose, children }: Props) {
  // A ref rather than state: Escape pressed right after typing is handled by the listener of the previous render.
  const isUnsaved = useRef(false);
  const report = useCallback((now: boolean) => {
    isUnsaved.current = now;
  }, []);
  const [asking, setAsking] = useState(false);
  // Deferred, otherwise the same Escape key press would also close the confirmation.
  const ask = () => setTimeout(() => setAsking(true));
  const leave = () => {
    setAsking(false);
    onClose();
  };
  return (
    <>
      <Modal
        opened={opened}
        onClose={() => (isUnsaved.current ? ask() : onClose())}
        title={title}
        size={size}
        closeOnClickOutside={false}
        closeOnEscape={!asking}
        closeButtonProps={{ 'aria-label': t.close }}
      >
        <ReportUnsaved value={report}>{children}</ReportUnsaved>
      </Modal>
      <LeaveDialog opened={asking} onLeave={leave} onStay={() => setAsking(false)} />
    </>
  );
}

/** Reports to the {@link EditorModal} whether its form has unsaved changes, and guards navigation. */
export function Unsaved({ when }: { when: boolean }) {
  const report = useContext(ReportUnsaved);
  useLayoutEffect(() => {
    report(when);
    return () => report(false);
  }, [report, when]);
  return <UnsavedChangesGuard when={when} />;
}
