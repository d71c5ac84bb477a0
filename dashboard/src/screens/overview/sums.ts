/** The sums that the parts of the overview share, of one moment, so that they agree. */
import type { Analytics } from '../../generated/api';
import type { TimeRange } from '../../scope';

export interface Sums {
  range: TimeRange;
  all: Analytics;
  earlier: Analytics;
  overTime: Analytics;
  outcomes: Analytics;
  models: Analytics;
  failing: Analytics;
  failedBefore: Analytics;
}
