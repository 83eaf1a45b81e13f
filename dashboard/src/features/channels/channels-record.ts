import { useQueryClient } from '@tanstack/react-query';
import { type Schemas, type Tagged, apiFor, ifMatch, readTagged } from '../../api/client';
import { notify } from '../../app/notice';
import { useProject } from '../../app/project';
import { useEdited } from '../../components/record';
import { t } from '../../text';

type Channels = Schemas['Channels'];

/** Query for the configuration of all channels and its entity tag, which covers all channels. */
export function channelsQuery(projectId: string) {
  return {
    queryKey: [projectId, 'channels', 'tagged'],
    queryFn: ({ signal }: { signal: AbortSignal }) => readTagged(apiFor(projectId).GET('/channels', { signal })),
    // Not cached: a form starts from this state and saves under its tag, so changes made since the last visit must be loaded.
    gcTime: 0,
  };
}

interface Part<F> {
  channels: Tagged<Channels>;
  fieldsOf: (channels: Channels) => F;
  inputOf: (base: F, fields: F) => Schemas['ChannelsInput'];
  /** The fields as stored, for the case that they cannot be reloaded. */
  storedAs: (fields: F) => F;
}

/** Edits a part of the channel configuration under the entity tag of the whole. */
export function useChannels<F extends object>({ channels, fieldsOf, inputOf, storedAs }: Part<F>) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const api = apiFor(projectId);
  const { queryKey } = channelsQuery(projectId);
  const reload = async (): Promise<Tagged<F>> => {
    const current = await readTagged(api.GET('/channels'));
    client.setQueryData(queryKey, current);
    return { value: fieldsOf(current.value), tag: current.tag };
  };
  const put = async (body: Schemas['ChannelsInput'], expected: string | null, fallback: F): Promise<Tagged<F>> => {
    const { tag, value } = await readTagged(api.PUT('/channels', { params: { header: ifMatch(expected) }, body }));
    if (value.clearedSecrets?.length) notify(t.channels.secretsCleared);
    // The configuration is stored even if the reload fails.
    return reload().catch(() => {
      client.setQueryData<Tagged<Channels>>(queryKey, (before) => before && { ...before, tag });
      return { value: fallback, tag };
    });
  };
  const edited = useEdited<F, F>({
    opened: { value: fieldsOf(channels.value), tag: channels.tag },
    empty: fieldsOf(channels.value),
    fieldsOf: (stored) => stored,
    change: (_, fields, base, tag) => put(inputOf(base, fields), tag, storedAs(fields)),
    reload,
    onSaved: () => notify(t.channels.saved),
  });
  /** Changes fields that are not part of the form. */
  const change = async (body: Schemas['ChannelsInput']) =>
    edited.setStored(await put(body, edited.tag, edited.stored ?? edited.draft.base));
  return { edited, change };
}
