--
-- PostgreSQL database dump
--


-- Dumped from database version 18.6
-- Dumped by pg_dump version 18.6

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: narthex_mark_changed(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.narthex_mark_changed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.changed := (SELECT version FROM keys_version);
    RETURN NEW;
END $$;


--
-- Name: narthex_raise_keys_version(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.narthex_raise_keys_version() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE keys_version SET version = version + 1;
    RETURN NULL;
END $$;


--
-- Name: narthex_sweep_keys(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.narthex_sweep_keys() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE keys_version SET version = version + 1, swept = version + 1;
    RETURN NULL;
END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: alembic_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: credentials; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.credentials (
    name text NOT NULL,
    sealed text NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: deleted_responses; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deleted_responses (
    id uuid NOT NULL,
    team_id uuid NOT NULL,
    deleted_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: directory_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.directory_version (
    id smallint NOT NULL,
    version bigint NOT NULL
);


--
-- Name: inference_content; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.inference_content (
    id uuid NOT NULL,
    policy text NOT NULL,
    ask bytea,
    reply bytea
)
PARTITION BY RANGE (id);
ALTER TABLE ONLY public.inference_content ALTER COLUMN ask SET STORAGE EXTERNAL;
ALTER TABLE ONLY public.inference_content ALTER COLUMN reply SET STORAGE EXTERNAL;


--
-- Name: inference_content_20261122; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.inference_content_20261122 (
    id uuid CONSTRAINT inference_content_id_not_null NOT NULL,
    policy text CONSTRAINT inference_content_policy_not_null NOT NULL,
    ask bytea,
    reply bytea
);
ALTER TABLE ONLY public.inference_content_20261122 ALTER COLUMN ask SET STORAGE EXTERNAL;
ALTER TABLE ONLY public.inference_content_20261122 ALTER COLUMN reply SET STORAGE EXTERNAL;


--
-- Name: inference_content_20261123; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.inference_content_20261123 (
    id uuid CONSTRAINT inference_content_id_not_null NOT NULL,
    policy text CONSTRAINT inference_content_policy_not_null NOT NULL,
    ask bytea,
    reply bytea
);
ALTER TABLE ONLY public.inference_content_20261123 ALTER COLUMN ask SET STORAGE EXTERNAL;
ALTER TABLE ONLY public.inference_content_20261123 ALTER COLUMN reply SET STORAGE EXTERNAL;


--
-- Name: inferences; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.inferences (
    id uuid NOT NULL,
    episode_id uuid NOT NULL,
    received_at timestamp with time zone NOT NULL,
    team_id uuid NOT NULL,
    key_id uuid NOT NULL,
    route text NOT NULL,
    model text NOT NULL,
    function text,
    variant text,
    served_provider text,
    served_model text,
    endpoint text,
    streamed boolean NOT NULL,
    status smallint NOT NULL,
    outcome text NOT NULL,
    finish_reason text,
    error text,
    message text,
    input_tokens integer,
    output_tokens integer,
    cached_tokens integer,
    reasoning_tokens integer,
    duration_us bigint NOT NULL,
    first_token_us bigint,
    attempts jsonb,
    dropped text[],
    tags jsonb,
    end_user text,
    snapshot text NOT NULL,
    charged_input integer,
    charged_output integer,
    cost_microusd bigint,
    guided text,
    usage_more jsonb
)
PARTITION BY RANGE (id);


--
-- Name: inferences_20261122; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.inferences_20261122 (
    id uuid CONSTRAINT inferences_id_not_null NOT NULL,
    episode_id uuid CONSTRAINT inferences_episode_id_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT inferences_received_at_not_null NOT NULL,
    team_id uuid CONSTRAINT inferences_team_id_not_null NOT NULL,
    key_id uuid CONSTRAINT inferences_key_id_not_null NOT NULL,
    route text CONSTRAINT inferences_route_not_null NOT NULL,
    model text CONSTRAINT inferences_model_not_null NOT NULL,
    function text,
    variant text,
    served_provider text,
    served_model text,
    endpoint text,
    streamed boolean CONSTRAINT inferences_streamed_not_null NOT NULL,
    status smallint CONSTRAINT inferences_status_not_null NOT NULL,
    outcome text CONSTRAINT inferences_outcome_not_null NOT NULL,
    finish_reason text,
    error text,
    message text,
    input_tokens integer,
    output_tokens integer,
    cached_tokens integer,
    reasoning_tokens integer,
    duration_us bigint CONSTRAINT inferences_duration_us_not_null NOT NULL,
    first_token_us bigint,
    attempts jsonb,
    dropped text[],
    tags jsonb,
    end_user text,
    snapshot text CONSTRAINT inferences_snapshot_not_null NOT NULL,
    charged_input integer,
    charged_output integer,
    cost_microusd bigint,
    guided text,
    usage_more jsonb
);


--
-- Name: inferences_20261123; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.inferences_20261123 (
    id uuid CONSTRAINT inferences_id_not_null NOT NULL,
    episode_id uuid CONSTRAINT inferences_episode_id_not_null NOT NULL,
    received_at timestamp with time zone CONSTRAINT inferences_received_at_not_null NOT NULL,
    team_id uuid CONSTRAINT inferences_team_id_not_null NOT NULL,
    key_id uuid CONSTRAINT inferences_key_id_not_null NOT NULL,
    route text CONSTRAINT inferences_route_not_null NOT NULL,
    model text CONSTRAINT inferences_model_not_null NOT NULL,
    function text,
    variant text,
    served_provider text,
    served_model text,
    endpoint text,
    streamed boolean CONSTRAINT inferences_streamed_not_null NOT NULL,
    status smallint CONSTRAINT inferences_status_not_null NOT NULL,
    outcome text CONSTRAINT inferences_outcome_not_null NOT NULL,
    finish_reason text,
    error text,
    message text,
    input_tokens integer,
    output_tokens integer,
    cached_tokens integer,
    reasoning_tokens integer,
    duration_us bigint CONSTRAINT inferences_duration_us_not_null NOT NULL,
    first_token_us bigint,
    attempts jsonb,
    dropped text[],
    tags jsonb,
    end_user text,
    snapshot text CONSTRAINT inferences_snapshot_not_null NOT NULL,
    charged_input integer,
    charged_output integer,
    cost_microusd bigint,
    guided text,
    usage_more jsonb
);


--
-- Name: keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.keys (
    id uuid NOT NULL,
    prefix text NOT NULL,
    hash bytea NOT NULL,
    team_id uuid NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    admin boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    revoked_at timestamp with time zone,
    models text[],
    routes text[],
    networks text[],
    expires_at timestamp with time zone,
    replaced_by text,
    changed bigint DEFAULT '0'::bigint NOT NULL
);


--
-- Name: keys_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.keys_version (
    id smallint NOT NULL,
    version bigint NOT NULL,
    swept bigint NOT NULL
);


--
-- Name: limit_epochs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.limit_epochs (
    epoch text NOT NULL,
    began_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: limits; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.limits (
    name text NOT NULL,
    "position" integer NOT NULL,
    config jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: models; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.models (
    name text NOT NULL,
    config jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: prices; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.prices (
    provider text NOT NULL,
    model text NOT NULL,
    since text NOT NULL,
    config jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: providers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.providers (
    name text NOT NULL,
    config jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: snapshots; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.snapshots (
    hash text NOT NULL,
    document jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: spool_positions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.spool_positions (
    segment text NOT NULL,
    spool text NOT NULL,
    read_to bigint CONSTRAINT spool_positions_position_not_null NOT NULL,
    moved_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: teams; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.teams (
    id uuid NOT NULL,
    name text NOT NULL,
    content text DEFAULT 'full'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    changed bigint DEFAULT '0'::bigint NOT NULL
);


--
-- Name: usage; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.usage (
    key_id uuid NOT NULL,
    hour timestamp with time zone NOT NULL,
    team_id uuid NOT NULL,
    model text NOT NULL,
    requests bigint NOT NULL,
    failed bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    charged_input bigint NOT NULL,
    charged_output bigint NOT NULL,
    cost_microusd bigint NOT NULL,
    unpriced bigint NOT NULL
)
WITH (fillfactor='70');


--
-- Name: workers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.workers (
    id text NOT NULL,
    version bigint NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: inference_content_20261122; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inference_content ATTACH PARTITION public.inference_content_20261122 FOR VALUES FROM ('01a2008d-7400-7000-8000-000000000000') TO ('01a205b3-d000-7000-8000-000000000000');


--
-- Name: inference_content_20261123; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inference_content ATTACH PARTITION public.inference_content_20261123 FOR VALUES FROM ('01a205b3-d000-7000-8000-000000000000') TO ('01a20ada-2c00-7000-8000-000000000000');


--
-- Name: inferences_20261122; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inferences ATTACH PARTITION public.inferences_20261122 FOR VALUES FROM ('01a2008d-7400-7000-8000-000000000000') TO ('01a205b3-d000-7000-8000-000000000000');


--
-- Name: inferences_20261123; Type: TABLE ATTACH; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inferences ATTACH PARTITION public.inferences_20261123 FOR VALUES FROM ('01a205b3-d000-7000-8000-000000000000') TO ('01a20ada-2c00-7000-8000-000000000000');


--
-- Data for Name: alembic_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.alembic_version VALUES
	('0008');


--
-- Data for Name: credentials; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.credentials VALUES
	('claude', '4385583e.NzztlPEnP2xgunKcbMZ7ynBf1SfzkiO84SFvW+iVzhT6D5G1Kp5FU8jL', '2026-11-22 15:50:14.926808+00');


--
-- Data for Name: deleted_responses; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: directory_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.directory_version VALUES
	(1, 4);


--
-- Data for Name: inference_content_20261122; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.inference_content_20261122 VALUES
	('01a203f3-0710-75f7-b85c-5df5a24ae763', 'full', '\x007b226d6f64656c223a2273616e64626f78222c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d2c226d65746164617461223a7b2274656e616e74223a2261636d65227d2c2275736572223a22616e6e227d', '\x780175934d6edb301085af32e05a36643bb21cefbaebaafba2280c8a1c596c288eca19c50e0c0339487bb99ca4a3b88dd31a5d0918bef7cdaf4e2678b335e5c22ecb55bb9a95f5a29cd5555bcf9a4de566956f2bbbbcb358af57a630d47c4327aa779d95b9a37e882881923eb98c5650598bfabe5aad97d56653989e3c4695b34dbea1a3ca18f36370b89380591f3cb6768c323d3cb160bf6b43da631e7248539a64b374789c5dfdae23b5b3d97e3999903c1ecdb6d43cc86cf768b6279329ead758e6c06295a2a551127ce57dc41809da4c3d28173e5df0f01b5fc0a1c38c70a0ec191cb14022e9b4a2397ca65165c16fe1e5f9c73b0c0b65f42fcf3fe7f001be8f01059441091aca990e0c8c8f98807b1b23349a9e279520e0d13a894fffda32f6d83798198230d021016acbb79ec1ea0493008960861e2d8f19f9b52b091e614c12a23220db9078ca1275189813641c34a4700b9e284348b027f2a04d639e848e8641990f2812513f38bc691b6cb55d9d0aa5b90e36633bb2d505a731c6736122ed874c8d6e670a14469719b8dbe965b0de889e81d060ce5f0ba3aecbb654de0fb2137ac0a4b6f5b4ac3f47f516dde88685c4c66b44857f59771ec586a8889371d675e8dfb46ab6a30f740d68a53759de032ef5eadaaf965b86427008ac07befbef1f747f6767582dcb1aebcddae1ca9c7f01d5cb31f5'),
	('01a203f3-0720-72b0-aa37-716417a09255', 'full', '\x007b226d6f64656c223a2273616e64626f78222c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d2c2273747265616d223a747275652c2273747265616d5f6f7074696f6e73223a7b22696e636c7564655f7573616765223a747275657d7d', '\x7801ed9dcf6ed34010c6ef7d8ad59e9d2a4e9aa4cd0d09244e70e1825015aded4d6d6a7bcdee9a065595fa20f0727d12a6b44d5aaa96967c1c80ef18c7de383fcd9fdd999d9dc2443357a7ba2af45c0f53331a8e97e3c170361a0e66a36c3830663c1bccd2e95e3a33c383d164a213edb28f368f727f5e9ab89bbba6ab6dac5cbb9b977d7b2c37e4de9a6865c4747630194f4793fdfd4437aeb0b53c144c5b646e25b705eb3f57b95dc4ca7af9a2b04bd3d7f1f28b2f21da66b1acda23eb3b5fb5973fd61a1f4bbb1a6c9ecf4b278f073dff20efdf1676a5e7c34486a9a3d1f353ed5d6de539134215a29131e4c55c1bed8fd1e483b7cb3e1879a5b6afebb344d7eea8f32e93f12e2f245a7ebe0ae542fe4b70edf55d8789b65d15e4af2c1e24969ae9203fb0e3e9244fd3bd744f9fedec14ff2ee60dd3d7b6ae9d26c90705f6f9a22322fbb8906fe8aba577cd93e9ffe532f967498a9d21c86bfb7fcf9a3d4724dffcb0d9640960b92245004575357b204b004b4ae4cd1c791b1b99501601b2a84e4aebe9b41102a94e9c2f02a5122195b90b912411245b17cbaa254b00cb23520450dc25450045f5def5048900198c04249f1a7b63f4e7e760f1268e362745843c922280e2c5f9577204707c5e6682d6f161ebc82cc3ede4e836811f15a2f39224a5cfbe4a346fc3f2e2fc1b3902ec2417359008da3be60fd7fb47b6516be56ada4788449a581bc6742128bd6d6c93d1dd00dc8df59449884c06fbd932388e41d998baa67603b45b65b21f900a0e91cabe8d15a51282b2624616c2d19baaa576235072d58da0a85ed06b23bc76eeba4eea311896dc3e2ca98e6d8c52844296009699f3de9d902540c7e9b6210e8765229b32c1adc2bc8de9a8d700bd569ffa2ad2dd4094dbae4c1eb9e446b0fc42e506283757890859e42a119399e52af1ce29095b4d7fb84ac4b15c3a398380ab4484a9e42a114151496ad6730604417922a7bc50b9310e9c1945d8465e66143122c98c224a24b95684f81b661421183b2327bc717b1a8225f7ae20282a172353dc18a7ddd896a78560501ac6c901717255ca01a34b9e2a803094cc7f21282ab7a4662334bbb359c6ed541067c3e02e44b3194543852c14a36810c5568ca2a144925134888d64140d82b19616060c5a406c24639110896ca43346cf4a11044be962c222114091080be151931f1558087fab0dd2561bfc58080f934a5638c050b2c201b6ed94fbfb1093a0ff66bdfd784faf5f4f04b51c1d29157387bfd38c2ed1d2f4ee481ae39d6ae976d7747111ddb195931ce6d3cbfe7837bdfcd657f727898e2e9a7a7de5204dee3eba286c34951cf52263e6262f6db1be57faf199bea8dce682fcbb7bbf727b80ab767bd2f96ff3c8fd31ced647b47e78f9f6cdabc39d9def1b338d41'),
	('01a203f3-0729-744d-8ad1-4e3a2e2868ac', 'full', '\x78014d8edb0d83300c455741fe66824cd01d10aa423034551253c748ada2ec8ed307ea9fed7b8f7c0a449a3180816cd33cd1137a8898b35d3183190a3005d474cfc81a394a8249f470c110a85b986297851867a8630f42143e9cbcb6c62d7b72e229297b8ea640b2f19dea79b3ac8b202b57e08bd17447272d65da90c5379b02f6afe2d56455a95a7b607cecbe3998413b63ad3f97abbb9177edd559a9078e415390', '\x78017552db6ea33010fd1534cf50710984f02b4d85c6f610dc1a1bd966930af1ef3b3455d255b54f309773e6cc19afa01574901758e6d55065f9b13c65c7c341652daa223b508525956dd3a284149c782719b95f8e185fa49b6643513bcb25e909233157713cd55553d66d9bc2e414196e0f689570376e0be4ff68497dd4e4b9a068c0c5c4bdf019224dfda0ed85fcecb5ddc758f471a45bf6c4cbd1313c40f7ba82b68a6ed0e53c8742c00b41b7827786bf8021e8109159589ab391763ebb189382a76109c8b2ee6174cef4128df926ddedd8c3be6d869c2a994b5442564d5dd4c3d050ad98317ecefb9061b1f27bfdc72f4bb0387d55b911fd6599783673c37a063c437748cf7065e9ee9a26574f36795fac9ec927137a612811183e2826237967538e26e11cc38a0db6ed6d4bc1b8cbec9d60c6bb7e764c87b167fb031fa2831ffb6c6f29f0aa77631834cdb18fee832c83f7f33c0ff84897156fe7229a47a6288a14fe01f78a22eaddaf959d9223a94733df0217a5dd33c18a7f8df94970d7cd577f427e733009cd3af06beafff75c8552a74c0ca514757b14792561fb0b4045f6d7'),
	('01a203f3-0732-76d9-abff-e16ac0b2ebc4', 'full', '\x78014d8e410e83300c04bf827ce605bca0c7de51850c31342889a91da45651fe5e473d14dfec5def4e81c88e020ca098dccc6fe821922a6ea4308c058403997a2a89490ba74c29dbe1462170b70ac74e330b39a88f1e84f4e0a434ad2c11cd57207f8e16b02ba749972745b49ceb669e84b1795ab966f18b3d6639c9b6dfc33f86e79d4ceee1103e48b26f9805f0d2e40d7133da5a1bcfebf40d6e18cd6380e89ccf9e1386fb2560c5a0546dbecec75ebc', '\x78017551db6e83300cfd173fc3c4a585c2afac13328929d9428212337542fcfbccaab59ba63d453a3e373b2b180d2d643916593994695697455a57ba49b11f8694f20a55d617d4ab0324e0fb57522c7c35223f293fcd96d8782723150899c42baf9b635915c7d32981c96bb2428fe874efaf428b14de8da28e0d0519681a70b1bc0f3e22d3d40dc65d28ccc1b83dc661e091aee943af462ff208edf30ac669ba429b490ec58817827685e0adbc80319ac8282e52cd3ba62fbff50c7886f6b8091a6858224a3bb758bb2560fd650ebe17eb1d48409a983876b25694056507f6336c2f0988ea1625f469e68efd1b3991557bd2f745ee689d007b467b07f232815fca4e13a3b1e2b082423592be7365355cb4f10f408afe09f96970ab2b477c48fe7a8809cd26cae774fffffe89d25c1d9aacac1b2af30cb64fb780bb08'),
	('01a203f3-073f-7810-ba64-4c5897ee8176', 'full', '\x007b226d6f64656c223a2273616e64626f78222c22696e707574223a2248692073746f726564227d', '\x78016d54cb6edb3010fc158267dbb0e3f811dd7aeba9a75c8aa210286965b3a648955cc6360c03f990f6e7f2251dea61276804038297bbb39cd9595da4ae64263d85369f2fd4c37c592fa7f3cdb29e6eb68bf9b450ebc7e963b9da3e6d88b68bcd5a4ea42b7e51c94391b381102b3d29a62a57882f364fabe5fa61b5dd4e6460c53120b7744d6b0829482e5479d879172d3ad7ca0442fd78fc1f0279efbccc6c346622b51d13f38a586903e8fea4711519f409ca56853ba56b466e23aef3e3d2536cc2eec630114cfc12bdf7ece67850cae79680d550086a97e87d4aa37496c9f61d868abe67ce746254296b1df86b68846bfc9c48e376ad77c5f0afcbcae4f35e07811fef497c531eaf93185864c23ad131134715840a07aa66e2bb8b48d05526de5eff7cd522b0f354bdbdfe9d892fa2746d4b5e1c88d990281cd43b0611e885ac088d324614644c1047cd7bdc562811d22066e219edf7ca172e7a513b633e2f8b96b5119a8557da86beca994a2836b860432a4458a9e3c2ba22f13b6a26412755b239cfe41522786792b82a040d59a15f0a06f22fbaa49c3561d8b2a25a4593348cdd0432ccd0629a39bb03253557c90bf7c0dd0d1759aa724ff9d1a3f12d7d0e87a570758f5c4787dc422bf8751c60d7e63d2afc1d9cd576774b9f0381315f738bac97084116f6b11ca63e98539df20fc837d7e2809d337989c9dcbd0c6b578a95cc2e006c95c721a536f744b4c0d6b49e5eb48b214feb9b36314fcbdcf784d19a96019cd438d0798cdf88005d525d3b0f07f72521368df243263a0755139f810997ebba9bcc90981c27b3fe124c0d1c87354fa1c50c52f7c6be486037e983701917aa3bb876ba252a7b8791272b447669ebc06f5c0dd7e6f765499008b423bc8fb6ecd62a3945075598eeb31261a29ecaf51fbc25b081'),
	('01a203f3-0748-7818-b640-cc346f1cea56', 'full', '\x007b226d6f64656c223a2273616e64626f78222c22696e707574223a22616e64206d6f7265222c2270726576696f75735f726573706f6e73655f6964223a22726573705f30316132303366332d303733662d373831302d626136342d346335383937656538313736227d', '\x78016d545b6edb3010bc0ac16fdb90e267fcd70bf4ab3f4551082b6a65b3a648955c3a360c0339487b809ea337c949bad4c3369ae4c7c87239bb339cd145ea4a6ea5c7d016590e4fd9bc9e4fb3f562335d6ff2cdb45c2db2a952f3c5aace15c2722527d2953f50d170c9d9805c531e81b02a80ebf9fa79395f3d2d379b890c041403f72ad7b406b9859b4b50879d77d1f2e41a4c40be3f1ebf4340ef9d975b1b8d99486dc7c6a242026d18ba3f695c8586e704b055e94e69cd486de475be5d7a8a4dd8dd182682895fa2f7c82ee33fbe4ae71619abc1106097e87d4843394b68fb09c38d7e66417822be05d63ae6af59235ee3fb441ab76bbd2b87ffbaaeadfceaa2d8c311054ba8f65809daa3f80c9e7f4e62a03313a92b80aeb6e2edf51773148df3f8f6fa7b26be70bb3395003210c401b10d1d04e90a85b662e75c259cafd0cfc427a15cdba2e736229346b6a02df5171a680523e85a9467dea8d4d4832ba8fffe11b533c6bd3c40ff8c9a50e0091499f37be8062144b6950878442b4203c688128d09225ad24668129e878799bcb234de99243984a0596c56351503faa356589046b680acb0866892b2b17b972dbface5372ec81d3069bcce9345ee95bb492e5225718b17cf4bdffa33365ea7f9bd721d8d732bade6ff951e51f9cd82b3daee6eed1923103fbbb955f2f9826bcc947c54831b06d3c2a9182d3350b81f9073a650acdadde36cf90a08e4f6c2802d783ec434e7dec823384dadc7a376311429d629a1c587219fd729e4d9b484d562ba50cbcdf31a7193af53c8d9a74d4b3c3fa976c0f398b31b615e42625d3bcf01e8970eb169c00f9dbc60801ae9cca33924baee9e706824f6aedcf6bb12366c48fe4aa4523ee327e97371918cdda4efc965cc637770edf44d8cf78ebd913c13c9f1c649863159ae2dee594b905c6847781fadea52992ca50394a6fb2a45765b4fe5fa0febb7c1d2'),
	('01a203f3-074e-79b6-bb20-99c6fc3e8a1d', 'full', '\x007b226d6f64656c223a2273616e64626f78222c226d61785f746f6b656e73223a32302c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d7d', '\x78015590514ec3300c86af12f9b945dd86369613f0c4132f08a1ca6dbc355a968cd885a2a91207e1749c04b7628849912c7dffef3fb6cfe01d5838f2beae16b8ac56bb55596d6ea9dc6c9b75d934cbaadc6edbf5ae5dd11d2e1c14201f279a3a8819f7a420a7300164f62c1845d131390aca18a36bd2a0a44d514835fb7cbe24080d93772e161e3bcf469f74641e306b19cc6fbb35319939d2bc231be403b91bf3947a357867cdf7e7d73d8590cc2ea7238c2f05b0a4539d0939c569541c6a49078aacdfcd12d36b4fb1d5b1631f4201fdbc8a3d838fa75e2e66bb2e20f5f29f2c2b5d05db8ea674575fdb55bbb2d78e047d60d060e97c3cf8b8ffcbae469d85f29b6fa9164f79ba965ecf6176308e3fda018d58'),
	('01a203f3-0753-7f81-a4dd-a16ef79840bb', 'full', '\x007b226d6f64656c223a2273616e64626f78222c2270726f6d7074223a224f6e6365227d', '\x78016d92414ec3301045af32f23aa992266dd3ecb8006cd8208422c79e3406c713d94e555455ea41e0729c84a1a01644b7e3ffdfccfcf15e182d6aa186d1a6592ee759d11569b65a14e9aaabf254965aa7325f62b75a5765d6b62211d43ea38a6c8ab88b8d22b66234e4f8497994111998afd68b62395f54552206d268591ea4d32ded58165e43c4a1e98cdba01fbd715f34277dec71975e64aa27a33088fa712f8cd3b81375969cbab2fc8126e8e516815baa1e35b0196ebf19f0c398c1972a48a36bf838bedd39851fc7f719dc80952ea2776c1e7068d10708b845076190d6428bd606300e36441ac86bf433b8673e590d325a1940d1e4e2355747fe344aec8de7a1cc8033ded8d266f4d4f22e6eb23611bcba097dc3b3070e8eb389348ac35322a6203728eabd60f930c626d20b3ab6e51cee39e973b59c731e14a5bd548ae4afb5d118a5b18cd80b754aeaace530e5a40d5d0a872b5d7e03bee7e5b35d2cff190cc1d104be7a73fa5b57be55dbe92ead0a95ad71592a2c3371f804c625df92'),
	('01a203f3-0759-7199-a6bc-b3c0b1ec688e', 'full', '\x007b226d6f64656c223a2273616e64626f782d656d626564222c22696e707574223a2274657874227d', '\x7801ed944d0a83301085ef32eb2893e6cfe42a222536416cd5484d4110ef5e69172e5cb7a0b898c5bcc72ce69bc74c10cabbbf4530d0d44304026d70be59dac176ae0c63e2dbd2bb4577365a30f9b40e7c1c5777d5e2d69df3231824b0aa26c7942a8e4a49a1332e98b8504530c5b3360c18cfa8108c6aa9512167e264b461b4cfdc24981ef9b8bfdfede000f799eaef17975a328a926996518ed9df9f7b3117045e83ad3c9809fa6768fb788de1e1bb010c251043b4cd2accf31b26f05b7e'),
	('01a203f3-075e-7abc-942c-43c9fc8e0083', 'full', '\x007b226d6f64656c223a2273616e64626f782d64696573222c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d2c2273747265616d223a747275657d', '\x7801ed9acd6edb300cc7ef7d0a41673b7092ba49fc043d0d3bf4320c43204b74acc5110d4959531405fa20dbcbf54946b70152741f6d16ed52f06859a4ac9ffea06452464555895b698dac6431569362da4cf36256423e53b5ce17e7139d9f4ff5a2d173288af9546612ebafa023f5d7ad8a238d9bbe8368d18d74bb756beaa03da808e4713c5b94d38b49399f677283063a320aca991a77b9b110a86f00ffcd6a58460b9ede1a68d4b68bc38b9b1061b36cac5b81efbd75c3884ef9d8c22edf3b19c66a91cc83ac3ed3249c819dac8a8cdc7451c9ea567aec80ec54083644453ec8025d84476ff4e0a1d90645dfe5b65d7797c90e57bdc79afc0d0d99a4e16d689734a1806edfeb4b26a1b781e6b3fc13b65a998b7c322f615c8e5539236c776767e69db33e80bd84ae43c938ff2edde345f4aadc0f4b201a8f9b372fc17b50e7ffc5496187693edb187e8d70c788f3c3631c67a0a980ee18652a94e2e96cc1405301656d3e3f509f14373356652a558aeb163c6fe9c9a429aed19bc0fa4ca64f8d2132ce64381dc6d63a069a0ae88a51a642396294a9508a4fb8659ac968064509ceb7a6f13887f4db0cf421255731ca64ca6494a9503edc7f6798a9601e57f8e088f94ac4e422c6cb7aec49e92311227aaacbf28e7e28709f04f4e1fe07c34c153bffe93708bc47ba37702b3710825a0db5fefddd00517b5c83c0a6c9047a61ac11940310a107b5169757571f4754fe8f37fd60522bbd0667964fde862b02869acb6292c95e79b5d917fe295eff04b038a662'),
	('01a203f3-0766-70ed-85a5-58ce49851628', 'full', '\x007b226d6f64656c223a2273616e64626f782d666c616b79222c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d7d', '\x780175524b6edb3010bdca806bc990ad4896bdcb2eabaeba298a42a0c491c59ae2081ccab16118c841dacbe5241dd9a9d322ed8ac0f0fdf88667658ddaaa6ca95759dee569b62ecb749da149ab42176951b5f8b0a98a65b9aa54a2a8f98e6d147cdbebb86869181d464b5eaeda803aa2682dd79b222f574555256a20834ee0acbd69e898764eef4f02660c07db621d2d06b936d8e9c9c5f9e2c41187bab37e87610cd6cf665e87d8e3317d5399cd7a123aabedd7b3b2dee0516d33714366bd43b53dab404e4ea5992d472d2ac2211ff1aaf78526e8f5014122b73d1a1075f8743381379305cc28d6d66ce1f5e5c7133a47d0051a80230534af2f3f17f0084eb431781850f3149081f1801e78d0ce41232406cd603b684e62d9d838935a1a470cb0c7181d0ad51b8144067af680f234e8285c33c5de064967075cc067c9e8498a806779b1441fb5b423f26048e0ffa0c89b0376136bd9809f9cbb24cad16e0cd44871f32051d2b3e5be961e5896287b8a34aacbb74409eb56a4c08731d691f6e88556ce3dfedefa7d5aac1315296a779f9479a2fea2d606a3b64e24ceaabdb67ec7cae6f4642cbd0f24e907973f056e79e58fbc533e6a88088e96e507d6fffbe28dd92c5334799e95c698f2a150975fc7cb0e71'),
	('01a203f3-076b-70ac-b0a2-4d9329ab4e17', 'full', '\x007b226d6f64656c223a2273616e64626f782d666c616b79222c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d7d', '\x780175534b6edb400cbd0a316bc9903fb16cefbaebaaab6c8aa210280d654d3d1aaa33546cc3309083b497cb494a3b699c2628604000f93e1c3efa649c351b534c7156ccdb795e94cb3a2f0b6cf2bac059beb0ebf96c8df582a6a5c90cd73fa811c5371dcaa4e17ef0248e83b69a4828a45ad3727d375fceee56abccf46cc92b3c61b0351ff2d6e3eea8e044f1c1355489a3a86d4b2d8e5e2e8d6312eaabd6852dc521ba70310b18a5a343fea27231eb58e9c96cbe9d8c0b960e6653a81ba5845b329b9389ecf56b302597045545391c84ae7af79d4ba03f15852fcfdaf0a2bd81c0709d1af69800d38eec04bef2a8006737f0f4f8eb3379cfd046ee210947b24f8fbf27f00906d4d7040116a1083d05ab269280f7014807869a5a85ab01870bfee7e848a0a3c801220da86f4d400f148fb0d737f11ec620ceab06446da609dcebbc81751757c08d94941520f5e8bd9a78afbe01b6cc16385a8aefcd1a56e177563ad9751dd2b968415c4f135d59a4764ca80186d1fb73663c6f87c8b5eefd52c88cc6e4525769f2496f4063161eccf97b6694f59c83c2fb412ae11d05a52d2f31fc3d9a5b552f4558d0bf56ca4566fea15696049d57899369b0e9c8be6235781cade35b4127fde0f256e0795e3db11be5a3868ad0e0921e70f5bf7fc8caae9a1cdb45d9149670ba9e9bf31f7d552726'),
	('01a203f3-076f-78a3-8dcc-a07f9d94a5da', 'full', '\x007b226d6f64656c223a2273616e64626f782d666c616b79222c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d7d', '\x78014d8e3d0f82401044ffca662b4dd010131b7a0b6bedc9c2ad42380fdcbd4309e1bf7b173f623b9979f36664915eb098f1c6aa74652cf0dc30283953f54f20a70f16857d9ec3eae83c8b230b279691050e69bb868a6b0afadb6c2e96ba092ed45a058ebd097cd38a01e17b60f55bccd04f437aaaa8eed899f22d9161dd9b18eff35d860309ddb070c1da0c0dfb444b9a83f4636b382ae3c731e2be61a99e7c88bda8fb97beb1df7e99cc82302ecbf202f6675a3b'),
	('01a203f3-0772-74b4-b78f-7cafdca4b5c5', 'full', '\x007b226d6f64656c223a2273616e64626f78222c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d7d', '\x78017553cb6edb3010fc9505cfb2e1471c39bef5d653ef45511814b9b2d8505c955cc5368c00f990f6e7f2251dd56d9222e84110b03b333bab595d4cf06667164bbb5aacdbf56c51d7ab597dd3dccc9a7adbce6a675befec4db3711b531969beb153e05d6775eea41f226b908496cb6c95a1b5acef36ebdbd566bbad4c2f9e23e0c526dfc809b0c2f92138de6be08c86e7d68e51a7c6b928f7fb36a403e72187348d49366bc7a7d92bdf75027a31bb2f171392e793d92d30874bb10736bb8bc912f136b69450d44205d62429ffd6fbc8310ab5597a822e7dbacad31ff98a8e1d67a6a3645fc849514aa21d1ccde9b38c8005bfa3e7a71f6f648a4a66fffcf4734e1f401906ce74cfaa9129f360b146a180478e8918e6694c1a224a94d12c132bc225e744adc0dcb190252f9229243a88788219ceefd57b4e30396da1c1337d1f8332f1c93a8de7098d022b611f49d4b32d63e649ba4312ed18495a1ab869228ac7a09d8c8a669131f9893c58e4939444e10cf469143f703e039cbc1cc962ab969a33f49aa0737ce4cced582cc24e638c8f95897218b234486a2a5406c186d2ed712505f782935019cce3d7ca80754d0ef07ed0bdca3d27d06ea7e0fe1ed84b75bba98c8adaf852b95b56e61feadeb3da10217131ceba8efd0b16a762471fe4b500a7efa6bc15b8fac509bc52de6b4084875070ecfbfffd4ddb4553cf566bbb76edd66f6ed99ac75f1a4c3674'),
	('01a203f3-0779-7795-a132-59e79d982bae', 'full', '\x007b226d6f64656c223a2273616e64626f78222c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a2248656c6c6f2066726f6d2073746f726564227d5d2c226c6f6769745f62696173223a7b2235223a317d2c2274656d7065726174757265223a302e327d', '\x78017553cb8edb300cfc1542e738c8a3d93c7aeaada79e7a298ac2a0243a5657165d896e120401f643da9fdb2f29dded26ed2e7a300c9033c311473a9be0cdcecce6b8982d9b65355bafb7957eab0ae7cb45b5dad27aebb79b85453213c3f62b3951bc6b51a68ebb3e92044eda72995048b5e64a5ede2d569bcdc474ec292abc60f2968f0a2b94bf0747b504cadaf0d4e010656c9c8a50573721ed29f739a4714cc22c2d1dab1bdfb5acf462769fcf26244f47b39be91c2a05f76476679339eadf6029a108aa8a5ae324f45bef634bf0e14913fe6802a672a05cde4262cbfe04d2f2b06f05d0f22010640a9f785074f03b787cf8f19e6264683277508433f9c7879f5318855bcc4ac9e07848529459800f09482d83a546b13a82d314de418f7afe24c0227425e849a1c31ebe0d4108e8884ee269443bee7b85dd934824b09c331f5ee8bfe08c76387a4089589e0d8dfa9175bd45c0e6e0f704da0c0dd8937ab77a52dd55a66628a899a521c6cbc444def799ad2e7c2c4c8ce6134a5b6bd84563d764857b73f93231ca7a0a40e15d2fb5f03d25a5dd8dfb7fbe27d7ea5a4313168cb78a02ffa1d69e04435489b371e85af257ac9271f0816f0575fa6acadf024f7ef56edd28af355484fa50f4ced6ff7b14766db7d59248df43d3bcf17334975f14902235');


--
-- Data for Name: inference_content_20261123; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: inferences_20261122; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.inferences_20261122 VALUES
	('01a203f3-0710-75f7-b85c-5df5a24ae763', '01a203f3-0710-75f7-b94a-e5207e786ce3', '2026-11-22 15:49:48.432373+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 6, 80, 0, 0, 12530, NULL, NULL, '{metadata,user}', '{"tenant": "acme"}', 'ann', 'a18ed5023147be28c753b3346ae93fd0', 6, 80, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-0720-72b0-aa37-716417a09255', '01a203f3-0720-72b0-a1a6-c9e365c11414', '2026-11-22 15:49:48.448168+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', true, 200, 'answered', 'stop', NULL, NULL, 6, 85, 0, 0, 7116, 5510, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 6, 85, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-0729-744d-8ad1-4e3a2e2868ac', '01a203f3-0729-744d-bdd9-bf2cb587b03c', '2026-11-22 15:49:48.457269+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'tool_calls', NULL, NULL, 88, 23, 0, 0, 7326, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 88, 23, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-0732-76d9-abff-e16ac0b2ebc4', '01a203f3-0732-76d9-ab8e-1c490379e310', '2026-11-22 15:49:48.466428+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 6, 7, 0, 0, 11316, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 6, 7, NULL, 'enforced', '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-073f-7810-ba64-4c5897ee8176', '01a203f3-073f-7810-84a5-1d9eebbf991c', '2026-11-22 15:49:48.479504+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_responses', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 5, 58, 0, 0, 2491, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 5, 58, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-0748-7818-b640-cc346f1cea56', '01a203f3-0748-7818-9777-219fe9b79d2b', '2026-11-22 15:49:48.488506+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_responses', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 71, 63, 0, 0, 3176, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 71, 63, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-074e-79b6-bb20-99c6fc3e8a1d', '01a203f3-074e-79b6-b5b7-571407868a7a', '2026-11-22 15:49:48.494607+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'anthropic_messages', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'length', NULL, NULL, 6, 20, 0, 0, 3225, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 6, 20, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-0753-7f81-a4dd-a16ef79840bb', '01a203f3-0753-7f81-bfdf-83c09e64ce40', '2026-11-22 15:49:48.499969+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_completions', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 1, 42, 0, 0, 2053, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 1, 42, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-0759-7199-a6bc-b3c0b1ec688e', '01a203f3-0759-7199-9357-46e29f9ec0b4', '2026-11-22 15:49:48.5051+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_embeddings', 'sandbox-embed', NULL, NULL, 'sandbox', 'sandbox-embed', 'http://127.0.0.1:18788', false, 200, 'answered', NULL, NULL, NULL, 1, 0, NULL, NULL, 3871, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 1, 0, NULL, NULL, NULL),
	('01a203f3-075e-7abc-942c-43c9fc8e0083', '01a203f3-075e-7abc-bad6-285e151a5783', '2026-11-22 15:49:48.510671+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox-dies', NULL, NULL, 'sandbox', 'sandbox-dies', 'http://127.0.0.1:18788', true, 200, 'failed', NULL, 'CutShort', 'sandbox broke off, or did not speak HTTP.', NULL, NULL, NULL, NULL, 4978, 2116, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 33, 25, NULL, NULL, NULL),
	('01a203f3-0766-70ed-85a5-58ce49851628', '01a203f3-0766-70ed-bd91-ed3306ddd645', '2026-11-22 15:49:48.518058+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox-flaky', NULL, NULL, 'sandbox', 'sandbox-flaky', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 6, 57, 0, 0, 2257, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 6, 57, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-076b-70ac-b0a2-4d9329ab4e17', '01a203f3-076b-70ac-8d8c-af47c0dea193', '2026-11-22 15:49:48.523042+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox-flaky', NULL, NULL, 'sandbox', 'sandbox-flaky', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 6, 68, 0, 0, 2773, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 6, 68, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-076f-78a3-8dcc-a07f9d94a5da', '01a203f3-076f-78a3-a89a-163c5c7130ce', '2026-11-22 15:49:48.52754+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox-flaky', NULL, NULL, NULL, NULL, NULL, false, 502, 'failed', NULL, 'Failed', 'The sandbox answers 500 (Internal Server Error) because sandbox-flaky fails every third request.', NULL, NULL, NULL, NULL, 1133, NULL, '[{"code": "sandbox_failure", "error": "Failed", "model": "sandbox-flaky", "status": 500, "message": "The sandbox answers 500 (Internal Server Error) because sandbox-flaky fails every third request.", "endpoint": "http://127.0.0.1:18788", "provider": "sandbox", "request_id": null, "started_us": 185, "duration_us": 879}]', NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 0, 0, 0, NULL, NULL),
	('01a203f3-0772-74b4-b78f-7cafdca4b5c5', '01a203f3-0772-74b4-80b7-23a3cf8d56ea', '2026-11-22 15:49:48.530294+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 6, 85, 0, 0, 4014, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 6, 85, NULL, NULL, '{"audio_input": 0, "audio_output": 0}'),
	('01a203f3-0779-7795-a132-59e79d982bae', '01a203f3-0779-7795-b7b9-3ee2baff4d1a', '2026-11-22 15:49:48.537474+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', '01a203f2-ac41-79c6-b1f8-a19ac2c90be0', 'openai_chat', 'sandbox', NULL, NULL, 'sandbox', 'sandbox', 'http://127.0.0.1:18788', false, 200, 'answered', 'stop', NULL, NULL, 6, 70, 0, 0, 1288, NULL, NULL, NULL, NULL, NULL, 'a18ed5023147be28c753b3346ae93fd0', 6, 70, NULL, NULL, '{"audio_input": 0, "audio_output": 0}');


--
-- Data for Name: inferences_20261123; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.keys VALUES
	('01a203f2-ac41-79c6-b1f8-a19ac2c90be0', '433ee85540e7', '\xa0dcc3845141aee454f10f598e9bb32c5de6fa71e8fc9efff9b269c77ee59573', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', 'first key', false, '2026-11-22 15:49:25.180173+00', NULL, NULL, NULL, NULL, NULL, NULL, 2),
	('01a203f2-ac68-768f-a5ab-2f9b75d9e414', '88c179474cc8', '\x15457a12c3e44f755328679549a3b7c9def6ffb1735e15ce58283864d1c7fe5f', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', 'admin key', true, '2026-11-22 15:49:25.219721+00', NULL, NULL, NULL, NULL, NULL, NULL, 3);


--
-- Data for Name: keys_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.keys_version VALUES
	(1, 4, 0);


--
-- Data for Name: limit_epochs; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: limits; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.limits VALUES
	('per-key requests', 0, '{"per": "minute", "name": "per-key requests", "scope": {"key": "each"}, "amount": 600.0, "resource": "requests"}', '2026-11-22 15:50:31.289128+00');


--
-- Data for Name: models; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.models VALUES
	('sandbox', '{"targets": [{"model": "sandbox", "provider": "sandbox"}]}', '2026-11-22 15:49:25.129833+00'),
	('sandbox-dies', '{"targets": [{"model": "sandbox-dies", "provider": "sandbox"}]}', '2026-11-22 15:49:25.129833+00'),
	('sandbox-embed', '{"targets": [{"model": "sandbox-embed", "provider": "sandbox"}]}', '2026-11-22 15:49:25.129833+00'),
	('sandbox-flaky', '{"targets": [{"model": "sandbox-flaky", "provider": "sandbox"}]}', '2026-11-22 15:49:25.129833+00'),
	('sandbox-slow', '{"targets": [{"model": "sandbox-slow", "provider": "sandbox"}]}', '2026-11-22 15:49:25.129833+00'),
	('assistant', '{"targets": [{"model": "claude-sonnet-4-5", "provider": "claude"}]}', '2026-11-22 15:50:17.185546+00'),
	('qwen3-4b', '{"targets": [{"model": "Qwen/Qwen3-4B", "provider": "gpu"}], "fallbacks": ["sandbox"]}', '2026-11-22 15:50:17.185546+00');


--
-- Data for Name: prices; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.prices VALUES
	('gpu', 'Qwen/Qwen3-4B', '', '{"input": 0.15, "model": "Qwen/Qwen3-4B", "output": 0.6, "provider": "gpu"}', '2026-11-22 15:50:31.289128+00');


--
-- Data for Name: providers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.providers VALUES
	('sandbox', '{"adapter": "sandbox", "base_url": "http://127.0.0.1:18788"}', '2026-11-22 15:49:25.129833+00'),
	('claude', '{"adapter": "anthropic", "credential": "store:claude"}', '2026-11-22 15:50:17.185546+00'),
	('gpu', '{"adapter": "vllm", "options": {"guided": "validated"}, "base_url": "http://127.0.0.1:9"}', '2026-11-22 15:50:17.185546+00');


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.snapshots VALUES
	('a18ed5023147be28c753b3346ae93fd0', '{"models": {"sandbox": {"targets": [{"model": "sandbox", "provider": "sandbox"}]}, "sandbox-dies": {"targets": [{"model": "sandbox-dies", "provider": "sandbox"}]}, "sandbox-slow": {"targets": [{"model": "sandbox-slow", "provider": "sandbox"}]}, "sandbox-embed": {"targets": [{"model": "sandbox-embed", "provider": "sandbox"}]}, "sandbox-flaky": {"targets": [{"model": "sandbox-flaky", "provider": "sandbox"}]}}, "providers": {"sandbox": {"adapter": "sandbox", "base_url": "http://127.0.0.1:18788"}}}', '2026-11-22 15:49:27.405761+00'),
	('5344d7a3d14fb3b71a9bbd84984ccdc2', '{"models": {"sandbox": {"targets": [{"model": "sandbox", "provider": "sandbox"}]}, "qwen3-4b": {"targets": [{"model": "Qwen/Qwen3-4B", "provider": "gpu"}], "fallbacks": ["sandbox"]}, "assistant": {"targets": [{"model": "claude-sonnet-4-5", "provider": "claude"}]}, "sandbox-dies": {"targets": [{"model": "sandbox-dies", "provider": "sandbox"}]}, "sandbox-slow": {"targets": [{"model": "sandbox-slow", "provider": "sandbox"}]}, "sandbox-embed": {"targets": [{"model": "sandbox-embed", "provider": "sandbox"}]}, "sandbox-flaky": {"targets": [{"model": "sandbox-flaky", "provider": "sandbox"}]}}, "providers": {"gpu": {"adapter": "vllm", "options": {"guided": "validated"}, "base_url": "http://127.0.0.1:9"}, "claude": {"adapter": "anthropic", "credential": "store:claude"}, "sandbox": {"adapter": "sandbox", "base_url": "http://127.0.0.1:18788"}}}', '2026-11-22 15:50:17.21304+00'),
	('418dbad514bdfcbc9b774ab9bdf4ecdc', '{"limits": [{"per": "minute", "name": "per-key requests", "scope": {"key": "each"}, "amount": 600.0, "resource": "requests"}], "models": {"sandbox": {"targets": [{"model": "sandbox", "provider": "sandbox"}]}, "qwen3-4b": {"targets": [{"model": "Qwen/Qwen3-4B", "provider": "gpu"}], "fallbacks": ["sandbox"]}, "assistant": {"targets": [{"model": "claude-sonnet-4-5", "provider": "claude"}]}, "sandbox-dies": {"targets": [{"model": "sandbox-dies", "provider": "sandbox"}]}, "sandbox-slow": {"targets": [{"model": "sandbox-slow", "provider": "sandbox"}]}, "sandbox-embed": {"targets": [{"model": "sandbox-embed", "provider": "sandbox"}]}, "sandbox-flaky": {"targets": [{"model": "sandbox-flaky", "provider": "sandbox"}]}}, "prices": [{"input": 0.15, "model": "Qwen/Qwen3-4B", "output": 0.6, "provider": "gpu"}], "providers": {"gpu": {"adapter": "vllm", "options": {"guided": "validated"}, "base_url": "http://127.0.0.1:9"}, "claude": {"adapter": "anthropic", "credential": "store:claude"}, "sandbox": {"adapter": "sandbox", "base_url": "http://127.0.0.1:18788"}}}', '2026-11-22 15:50:31.316073+00');


--
-- Data for Name: spool_positions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.spool_positions VALUES
	('0660df6c0d350d-c6a1d43a2921345b', '399e1bbc-8f44-485f-b705-604708dbb6e2', 55811, '2026-11-22 15:49:48.576039+00');


--
-- Data for Name: teams; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.teams VALUES
	('01a203f2-ac3d-730a-8f99-a33dcc70ade7', 'default', 'full', '2026-11-22 15:49:25.180173+00', 0),
	('01a203f3-ae7f-7649-b94c-0a91a6cda1b3', 'legal', 'none', '2026-11-22 15:50:31.289128+00', 0);


--
-- Data for Name: usage; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.usage VALUES
	('01a203f2-ac41-79c6-b1f8-a19ac2c90be0', '2026-11-22 15:00:00+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', 'sandbox', 10, 0, 201, 533, 0, 0, 201, 533, 0, 10),
	('01a203f2-ac41-79c6-b1f8-a19ac2c90be0', '2026-11-22 15:00:00+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', 'sandbox-dies', 1, 1, 0, 0, 0, 0, 33, 25, 0, 1),
	('01a203f2-ac41-79c6-b1f8-a19ac2c90be0', '2026-11-22 15:00:00+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', 'sandbox-embed', 1, 0, 1, 0, 0, 0, 1, 0, 0, 1),
	('01a203f2-ac41-79c6-b1f8-a19ac2c90be0', '2026-11-22 15:00:00+00', '01a203f2-ac3d-730a-8f99-a33dcc70ade7', 'sandbox-flaky', 3, 1, 12, 125, 0, 0, 12, 125, 0, 2);


--
-- Data for Name: workers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.workers VALUES
	('host:/srv/narthex:gateway-0', 4, '2026-11-22 15:50:31.316073+00');


--
-- Name: alembic_version alembic_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);


--
-- Name: credentials credentials_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.credentials
    ADD CONSTRAINT credentials_pkey PRIMARY KEY (name);


--
-- Name: deleted_responses deleted_responses_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deleted_responses
    ADD CONSTRAINT deleted_responses_pkey PRIMARY KEY (id);


--
-- Name: directory_version directory_version_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.directory_version
    ADD CONSTRAINT directory_version_pkey PRIMARY KEY (id);


--
-- Name: inference_content inference_content_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inference_content
    ADD CONSTRAINT inference_content_pkey PRIMARY KEY (id);


--
-- Name: inference_content_20261122 inference_content_20261122_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inference_content_20261122
    ADD CONSTRAINT inference_content_20261122_pkey PRIMARY KEY (id);


--
-- Name: inference_content_20261123 inference_content_20261123_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inference_content_20261123
    ADD CONSTRAINT inference_content_20261123_pkey PRIMARY KEY (id);


--
-- Name: inferences inferences_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inferences
    ADD CONSTRAINT inferences_pkey PRIMARY KEY (id);


--
-- Name: inferences_20261122 inferences_20261122_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inferences_20261122
    ADD CONSTRAINT inferences_20261122_pkey PRIMARY KEY (id);


--
-- Name: inferences_20261123 inferences_20261123_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.inferences_20261123
    ADD CONSTRAINT inferences_20261123_pkey PRIMARY KEY (id);


--
-- Name: keys keys_hash_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_hash_key UNIQUE (hash);


--
-- Name: keys keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);


--
-- Name: keys keys_prefix_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_prefix_key UNIQUE (prefix);


--
-- Name: keys_version keys_version_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys_version
    ADD CONSTRAINT keys_version_pkey PRIMARY KEY (id);


--
-- Name: limit_epochs limit_epochs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limit_epochs
    ADD CONSTRAINT limit_epochs_pkey PRIMARY KEY (epoch);


--
-- Name: limits limits_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.limits
    ADD CONSTRAINT limits_pkey PRIMARY KEY (name);


--
-- Name: models models_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.models
    ADD CONSTRAINT models_pkey PRIMARY KEY (name);


--
-- Name: prices prices_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.prices
    ADD CONSTRAINT prices_pkey PRIMARY KEY (provider, model, since);


--
-- Name: providers providers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.providers
    ADD CONSTRAINT providers_pkey PRIMARY KEY (name);


--
-- Name: snapshots snapshots_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (hash);


--
-- Name: spool_positions spool_positions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.spool_positions
    ADD CONSTRAINT spool_positions_pkey PRIMARY KEY (segment);


--
-- Name: teams teams_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.teams
    ADD CONSTRAINT teams_name_key UNIQUE (name);


--
-- Name: teams teams_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.teams
    ADD CONSTRAINT teams_pkey PRIMARY KEY (id);


--
-- Name: usage usage_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.usage
    ADD CONSTRAINT usage_pkey PRIMARY KEY (key_id, hour, team_id, model);


--
-- Name: workers workers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (id);


--
-- Name: inferences_episode_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inferences_episode_id_idx ON ONLY public.inferences USING btree (episode_id);


--
-- Name: inferences_20261122_episode_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inferences_20261122_episode_id_idx ON public.inferences_20261122 USING btree (episode_id);


--
-- Name: inferences_20261123_episode_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX inferences_20261123_episode_id_idx ON public.inferences_20261123 USING btree (episode_id);


--
-- Name: keys_changed_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX keys_changed_idx ON public.keys USING btree (changed);


--
-- Name: keys_team_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX keys_team_id_idx ON public.keys USING btree (team_id);


--
-- Name: teams_changed_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX teams_changed_idx ON public.teams USING btree (changed);


--
-- Name: usage_hour_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX usage_hour_idx ON public.usage USING btree (hour);


--
-- Name: usage_team_id_hour_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX usage_team_id_hour_idx ON public.usage USING btree (team_id, hour);


--
-- Name: inference_content_20261122_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.inference_content_pkey ATTACH PARTITION public.inference_content_20261122_pkey;


--
-- Name: inference_content_20261123_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.inference_content_pkey ATTACH PARTITION public.inference_content_20261123_pkey;


--
-- Name: inferences_20261122_episode_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.inferences_episode_id_idx ATTACH PARTITION public.inferences_20261122_episode_id_idx;


--
-- Name: inferences_20261122_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.inferences_pkey ATTACH PARTITION public.inferences_20261122_pkey;


--
-- Name: inferences_20261123_episode_id_idx; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.inferences_episode_id_idx ATTACH PARTITION public.inferences_20261123_episode_id_idx;


--
-- Name: inferences_20261123_pkey; Type: INDEX ATTACH; Schema: public; Owner: -
--

ALTER INDEX public.inferences_pkey ATTACH PARTITION public.inferences_20261123_pkey;


--
-- Name: keys keys_mark; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER keys_mark BEFORE UPDATE ON public.keys FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.narthex_mark_changed();


--
-- Name: keys keys_mark_new; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER keys_mark_new BEFORE INSERT ON public.keys FOR EACH ROW EXECUTE FUNCTION public.narthex_mark_changed();


--
-- Name: keys keys_raise; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER keys_raise BEFORE INSERT OR UPDATE ON public.keys FOR EACH STATEMENT EXECUTE FUNCTION public.narthex_raise_keys_version();


--
-- Name: keys keys_sweep; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER keys_sweep AFTER DELETE OR TRUNCATE ON public.keys FOR EACH STATEMENT EXECUTE FUNCTION public.narthex_sweep_keys();


--
-- Name: teams teams_mark; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER teams_mark BEFORE UPDATE ON public.teams FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.narthex_mark_changed();


--
-- Name: teams teams_raise; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER teams_raise BEFORE UPDATE ON public.teams FOR EACH STATEMENT EXECUTE FUNCTION public.narthex_raise_keys_version();


--
-- Name: keys keys_team_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.keys
    ADD CONSTRAINT keys_team_id_fkey FOREIGN KEY (team_id) REFERENCES public.teams(id);


--
-- PostgreSQL database dump complete
--


