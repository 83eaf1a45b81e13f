import { useQueryClient } from '@tanstack/react-query';
import { type Schemas, type Tagged, apiOf, ifMatch, readTagged } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { useEdited } from '../../components/record';
import { t } from '../../text';

type Channels = Schemas['Channels'];

/** The channels' configuration as it is now, and its tag: of all of it, whichever part a form is about. */
export function channelsQuery(projectId: string) {
  return {
    queryKey: [projectId, 'channels', 'tagged'],
    queryFn: ({ signal }: { signal: AbortSignal }) => readTagged(apiOf(projectId).GET('/channels', { signal })),
    // A form begins with it, and is saved under its tag: what somebody has changed since the last visit is read first.
    gcTime: 0,
  };
}

interface Part<F> {
  channels: Tagged<Channels>;
  fieldsOf: (channels: Channels) => F;
  inputOf: (base: F, fields: F) => Schemas['ChannelsInput'];
  /** The fields once they are stored, where they cannot be read again. */
  storedAs: (fields: F) => F;
}

/** A part of the channels' configuration that somebody edits, under the tag of the whole. */
export function useChannels<F extends object>({ channels, fieldsOf, inputOf, storedAs }: Part<F>) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const api = apiOf(projectId);
  const { queryKey } = channelsQuery(projectId);
  const newest = async (): Promise<Tagged<F>> => {
    const now = await readTagged(api.GET('/channels'));
    client.setQueryData(queryKey, now);
    return { value: fieldsOf(now.value), tag: now.tag };
  };
  const put = async (body: Schemas['ChannelsInput'], under: string | null, otherwise: F): Promise<Tagged<F>> => {
    const { tag, value } = await readTagged(api.PUT('/channels', { params: { header: ifMatch(under) }, body }));
    if (value.clearedSecrets?.length) notify(t.channels.secretsCleared);
    // It is stored, also where it cannot be read again now.
    return newest().catch(() => {
      client.setQueryData<Tagged<Channels>>(queryKey, (before) => before && { ...before, tag });
      return { value: otherwise, tag };
    });
  };
  const edited = useEdited<F, F>({
    opened: { value: fieldsOf(channels.value), tag: channels.tag },
    empty: fieldsOf(channels.value),
    fieldsOf: (stored) => stored,
    change: (_, fields, base, tag) => put(inputOf(base, fields), tag, storedAs(fields)),
    newest,
    onSaved: () => notify(t.channels.saved),
  });
  /** Changes what no field shows. */
  const change = async (body: Schemas['ChannelsInput']) =>
    edited.keep(await put(body, edited.tag, edited.stored ?? edited.draft.base));
  return { edited, change };
}
