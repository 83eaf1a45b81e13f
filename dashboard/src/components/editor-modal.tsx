import { Modal, type ModalProps } from '@mantine/core';
import { type ReactNode, createContext, useContext, useEffect, useState } from 'react';
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
  const [isUnsaved, setUnsaved] = useState(false);
  const [asking, setAsking] = useState(false);
  // After the stroke of Escape that closes the form, which would close the question, too.
  const ask = () => setTimeout(() => setAsking(true));
  const leave = () => {
    setAsking(false);
    onClose();
  };
  return (
    <>
      <Modal opened={opened} onClose={() => (isUnsaved ? ask() : onClose())} title={title} size={size} closeOnClickOutside={false} closeOnEscape={!asking} closeButtonProps={{ 'aria-label': t.close }}>
        <Report value={setUnsaved}>{children}</Report>
      </Modal>
      <LeaveQuestion opened={asking} onLeave={leave} onStay={() => setAsking(false)} />
    </>
  );
}

/** Whether a form in an {@link EditorModal} holds what is not saved: asked about also before the screen is left. */
export function Unsaved({ when }: { when: boolean }) {
  const report = useContext(Report);
  useEffect(() => {
    report(when);
    return () => report(false);
  }, [report, when]);
  return <KeepChanges when={when} />;
}
