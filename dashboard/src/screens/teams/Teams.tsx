/** Teams and their keys: the list, one team, or one key. */
import { place } from '../../router';
import { KeyView } from './KeyView';
import { KeyList } from './KeyList';
import { TeamView } from './TeamView';

export function Teams() {
  const [, kind, name] = place.value.path.split('/');
  if (kind === 'keys' && name) return <KeyView key={name} prefix={decodeURIComponent(name)} />;
  return name ? <TeamView key={name} name={decodeURIComponent(name)} /> : <KeyList />;
}
