/** The views that are not needed for the first one: they come together, as one file. */
export { Audit } from './audit/Audit';
export { Conversations } from './conversations/Conversations';
export { Cost } from './cost/Cost';
export { Datasets } from './datasets/Datasets';
export { Experiments } from './experiments/Experiments';
export { Feedback } from './feedback/Feedback';
export { Fleet } from './fleet/Fleet';
export { Functions } from './functions/Functions';
export { Limits } from './limits/Limits';
export { Me } from './me/Me';
export { Models } from './models/Models';
export { Playground } from './playground/Playground';
export { Replays } from './replays/Replays';
export { Requests } from './requests/Requests';
export { Settings } from './settings/Settings';
export { Teams } from './teams/Teams';
