/** Experiments: the list with what may be concluded of each, or one of them. */
import { place } from '../../router';
import { ExperimentList } from './ExperimentList';
import { ExperimentView } from './ExperimentView';

export function Experiments() {
  const name = place.value.path.split('/')[2];
  return name ? <ExperimentView key={name} name={decodeURIComponent(name)} /> : <ExperimentList />;
}
