/**
 * A dashboard for Fair Share: `strategy: {type: custom:fair-share}`, for a whole dashboard
 * or for one view. `days` of tokens (7) and `hours` of the other graphs (24) can be given.
 *
 * Home Assistant's frontend calls `generate` and shows what it returns; it calls again when
 * an entity or device was added, renamed or removed. Only cards that Home Assistant brings
 * are used. Entities that are disabled or hidden are left out, and so is a section of which
 * nothing is left.
 */

const NAME = "Fair Share";
const ICON = "mdi:scale-balance";

/** The texts that are not names of entities or devices. */
const TEXTS = {
  en: {
    now: "Now",
    quotas: "Quotas",
    tokens: "Tokens per day",
    waits: "Waiting",
    fairness: "Fairness",
    servers: "Servers",
    events: "Events",
    nothing: "There is nothing to show. Is Fair Share set up and running?",
  },
  de: {
    now: "Jetzt",
    quotas: "Kontingente",
    tokens: "Token pro Tag",
    waits: "Wartezeiten",
    fairness: "Fairness",
    servers: "Server",
    events: "Ereignisse",
    nothing: "Es gibt nichts zu zeigen. Ist Fair Share eingerichtet und läuft es?",
  },
  es: {
    now: "Ahora",
    quotas: "Cuotas",
    tokens: "Tokens por día",
    waits: "Esperas",
    fairness: "Equidad",
    servers: "Servidores",
    events: "Eventos",
    nothing: "No hay nada que mostrar. ¿Está Fair Share configurado y en marcha?",
  },
  fr: {
    now: "Maintenant",
    quotas: "Quotas",
    tokens: "Jetons par jour",
    waits: "Attentes",
    fairness: "Équité",
    servers: "Serveurs",
    events: "Événements",
    nothing: "Il n'y a rien à afficher. Fair Share est-il configuré et démarré ?",
  },
  ja: {
    now: "現在",
    quotas: "割り当て",
    tokens: "1日あたりのトークン",
    waits: "待ち時間",
    fairness: "公平性",
    servers: "サーバー",
    events: "イベント",
    nothing: "表示するものがありません。Fair Share は設定され、動作していますか？",
  },
  ko: {
    now: "현재",
    quotas: "할당량",
    tokens: "일별 토큰",
    waits: "대기 시간",
    fairness: "공정성",
    servers: "서버",
    events: "이벤트",
    nothing: "표시할 내용이 없습니다. Fair Share가 설정되어 실행 중인가요?",
  },
  nl: {
    now: "Nu",
    quotas: "Quota",
    tokens: "Tokens per dag",
    waits: "Wachttijden",
    fairness: "Eerlijkheid",
    servers: "Servers",
    events: "Gebeurtenissen",
    nothing: "Er is niets te tonen. Is Fair Share ingesteld en actief?",
  },
};

/** Make the frontend show one of the two names of an entity, not both of them. */
const DEVICE_NAME = { type: "device" };
const ENTITY_NAME = { type: "entity" };
const BAR = { features: [{ type: "bar-gauge" }] };
/** For names that are too long for half of a section. */
const WIDE = { grid_options: { columns: "full" } };

/**
 * Return the devices of each kind, in the order to show, each as its entities by domain and
 * translation key: `{member: [{"sensor.queue_depth": "sensor.child_queue_depth"}]}`.
 */
async function findPlaces(hass) {
  const ofDevice = {};
  for (const entity of Object.values(hass.entities)) {
    if (entity.platform !== "fair_share" || entity.hidden) continue;
    const [domain] = entity.entity_id.split(".");
    const entities = (ofDevice[entity.device_id] ??= {});
    entities[`${domain}.${entity.translation_key}`] = entity.entity_id;
  }
  let devices = {};
  try {
    devices = await hass.callWS({ type: "fair_share/devices" });
  } catch (error) {
    console.warn("Fair Share does not answer", error); // not loaded: nothing to show
  }
  const kinds = ["household", "member", "device", "client", "workload", "server"];
  return Object.fromEntries(
    kinds.map((kind) => [kind, (devices[kind] ?? []).map((id) => ofDevice[id] ?? {})])
  );
}

/** Each of these returns a list of cards, which is empty if there is no such entity. */
const tile = (entity, options = {}) =>
  entity ? [{ type: "tile", entity, name: ENTITY_NAME, ...options }] : [];

const multiple = (type, entities, options) =>
  entities.length ? [{ type, entities, ...options }] : [];

/** Return what `key` names of each place that has it, named by the device. */
const ofEach = (places, key) =>
  places
    .filter((place) => place[key])
    .map((place) => ({ entity: place[key], name: DEVICE_NAME }));

const known = (entity) => ({
  condition: "state",
  entity,
  state_not: ["unknown", "unavailable"],
});

const section = (heading, icon, cards, options = {}) =>
  cards.length
    ? [{ type: "grid", cards: [{ type: "heading", heading, icon }, ...cards], ...options }]
    : [];

function now(text, household, people) {
  return section(text.now, "mdi:account-voice", [
    ...household.flatMap((home) => [
      ...tile(home["sensor.running"]),
      ...tile(home["sensor.queue_depth"]),
      ...tile(home["sensor.expected_wait_voice"], WIDE),
      ...tile(home["sensor.tokens_per_second"], WIDE),
    ]),
    ...people.flatMap((place) => tile(place["sensor.member_state"], { name: DEVICE_NAME })),
  ]);
}

/** Only quotas that there are: a member without one has none to show, until it is set. */
function quotas(text, people) {
  const left = ofEach(people, "sensor.quota_remaining_percent");
  const cards = people.flatMap((place) => {
    const percent = place["sensor.quota_remaining_percent"];
    const reset = place["sensor.next_reset"];
    if (!percent) return [];
    const visibility = [known(percent)];
    return [
      ...tile(percent, { name: DEVICE_NAME, ...BAR, visibility }),
      ...tile(reset, reset && { visibility: [known(percent), known(reset)] }),
    ];
  });
  const conditions = left.map(({ entity }) => known(entity));
  return section(text.quotas, "mdi:gauge", cards, {
    visibility: [{ condition: "or", conditions }],
  });
}

function tokens(text, members, days) {
  return section(
    text.tokens,
    "mdi:counter",
    multiple("statistics-graph", ofEach(members, "sensor.tokens_served"), {
      chart_type: "bar-stack",
      period: "day",
      stat_types: ["change"],
      days_to_show: days,
    })
  );
}

function waits(text, workloads, hours) {
  const longest = ofEach(workloads, "sensor.wait_p95");
  const median = ofEach(workloads, "sensor.wait_p50"); // disabled at first
  return section(text.waits, "mdi:timer-sand", [
    ...multiple("glance", longest, { columns: 3, show_icon: false }),
    ...multiple("history-graph", longest, { hours_to_show: hours }),
    ...multiple("history-graph", median, { hours_to_show: hours }),
  ]);
}

/** Rules can be changed by administrators only: the others are shown no controls. */
function fairness(text, household, isAdmin, hours) {
  const control = (type) => (isAdmin ? { features: [{ type }] } : {});
  const wide = (type) => ({ ...control(type), ...WIDE });
  return section(
    text.fairness,
    ICON,
    household.flatMap((home) => [
      ...tile(home["select.policy"], control("select-options")),
      ...tile(home["sensor.policy_match"], BAR),
      ...tile(home["switch.pause_background"], wide("toggle")),
      ...tile(home["number.reserved_background_share"], wide("numeric-input")),
      ...multiple(
        "history-graph",
        ["sensor.fairness_gap", "sensor.fairness_bound"]
          .filter((key) => home[key])
          .map((key) => ({ entity: home[key], name: ENTITY_NAME })),
        { hours_to_show: hours }
      ),
    ])
  );
}

function servers(text, places) {
  return section(
    text.servers,
    "mdi:server",
    places.flatMap((server) => [
      ...tile(server["sensor.server_state"], { name: DEVICE_NAME, ...WIDE }),
      ...tile(server["sensor.slots_used"]),
      ...tile(server["sensor.kv_used"], BAR),
      ...tile(server["sensor.latency"], WIDE),
      ...tile(server["sensor.foreign_requests"], WIDE),
    ])
  );
}

function events(text, household, people, hours) {
  const entity_id = [
    ...household.map((home) => home["event.household"]),
    ...people.map((place) => place["event.member"]),
  ].filter(Boolean);
  const cards = entity_id.length
    ? [{ type: "logbook", target: { entity_id }, hours_to_show: hours }]
    : [];
  return section(text.events, "mdi:bell", cards);
}

async function generateView({ days = 7, hours = 24 }, hass) {
  const text = TEXTS[(hass.language ?? "en").split("-")[0]] ?? TEXTS.en;
  const { household, member, device, client, workload, server } = await findPlaces(hass);
  const people = [...member, ...device, ...client];
  const sections = [
    ...now(text, household, people),
    ...tokens(text, member, days),
    ...quotas(text, people),
    ...fairness(text, household, hass.user?.is_admin, hours),
    ...waits(text, workload, hours),
    ...servers(text, server),
    ...events(text, household, people, hours),
  ];
  return sections.length
    ? { type: "sections", max_columns: 3, sections }
    : { cards: [{ type: "markdown", content: text.nothing }] };
}

const REGISTRIES = ["entities", "devices", "language"];

class FairShareView extends HTMLElement {
  static registryDependencies = REGISTRIES;

  static async generate(config, hass) {
    return generateView(config, hass);
  }
}

class FairShareDashboard extends HTMLElement {
  static registryDependencies = REGISTRIES;

  static async generate(config, hass) {
    const view = await generateView(config, hass);
    return { title: NAME, views: [{ title: NAME, path: "fair-share", icon: ICON, ...view }] };
  }
}

customElements.define("ll-strategy-view-fair-share", FairShareView);
customElements.define("ll-strategy-dashboard-fair-share", FairShareDashboard);

// What the dialog for a new dashboard offers.
window.customStrategies ??= [];
window.customStrategies.push({
  type: "fair-share",
  strategyType: "dashboard",
  name: NAME,
  description: "Who is served, quotas, tokens, waiting times and servers",
});
