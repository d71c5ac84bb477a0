/** Conversations: the recent ones, or one of them, turn by turn. */
import { place } from '../../router';
import { ConversationList } from './ConversationList';
import { ConversationView } from './ConversationView';

export function Conversations() {
  const id = place.value.path.split('/')[2];
  return id ? <ConversationView key={id} id={decodeURIComponent(id)} /> : <ConversationList />;
}
