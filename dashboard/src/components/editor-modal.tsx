import { Modal, type ModalProps } from '@mantine/core';
import { type ReactNode, createContext, useCallback, useContext, useLayoutEffect, useRef, useState } from 'react';
import { t } from '../text';
import { KeepChanges, LeaveQuestion } from './draft';

const Report = createContext<(isUnsaved: boolean) => void>(() => {});

interface Props {
  opened: boolean;
  title: string;
  size?: ModalProps['size'];
  onClose: () => void;
  /** A form, which says by {@link Unsaved} whether it holds what is not saved. */
  children: ReactNode;
}

/** A form over the screen: what is not saved in it is asked about before it closes. */
export function EditorModal({ opened, title, size, onClose, children }: Props) {
  // Not a state: a key that is pressed right after the last letter meets the listener of the render before.
  const isUnsaved = useRef(false);
  const report = useCallback((now: boolean) => {
    isUnsaved.current = now;
  }, []);
  const [asking, setAsking] = useState(false);
  // After the stroke of Escape that closes the form, which would close the question, too.
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
        <Report value={report}>{children}</Report>
      </Modal>
      <LeaveQuestion opened={asking} onLeave={leave} onStay={() => setAsking(false)} />
    </>
  );
}

/** Whether a form in an {@link EditorModal} holds what is not saved: asked about also before the screen is left. */
export function Unsaved({ when }: { when: boolean }) {
  const report = useContext(Report);
  useLayoutEffect(() => {
    report(when);
    return () => report(false);
  }, [report, when]);
  return <KeepChanges when={when} />;
}
