/** Titles of the reasons that the API gives: why a request was slow, dear, sent there, or failed. */
import type { InferenceWithContent } from '../../generated/api';

export type Reason = InferenceWithContent['why'][number];

export function titleOf(reason: Reason): string {
  switch (reason.about) {
    case 'latency':
      return reason.salient ? 'Why slow?' : 'How long?';
    case 'cost':
      return 'Why this price?';
    case 'route':
      return 'Why there?';
    case 'end':
      return reason.evidence.outcome === 'disconnected' ? 'How did it end?' : 'Why did it fail?';
  }
}
