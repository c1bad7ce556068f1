// SPDX-License-Identifier: Apache-2.0
package org.libripc.internal;

/**
 * Sizes and offsets of the structures of ripc.h and rpc.h; java/src/main/native/layouts.h checks
 * them when it is compiled.
 */
public final class Layout {
  private Layout() {}

  /** The most items of one message. */
  public static final int MAX_ITEMS = 64;

  /** The most return buffers of one message. */
  public static final int MAX_RETURNS = 16;

  /** The most groups of one service. */
  public static final int MAX_GROUPS = 64;

  /** No limit of time. */
  public static final long FOREVER = -1L;

  public static final long DEFAULT_TIME = -2L;

  static final int SIZE = 0;

  /** ripc_context_options. */
  public static final class ContextOptions {
    private ContextOptions() {}

    public static final int BYTES = 112;
    public static final int RUNTIME_DIRECTORY = 8;
    public static final int TRANSPORTS = 16;
    public static final int STATIC_RESOLVER = 24;
    public static final int POOL_LIMIT = 32;
    public static final int RESOLVE_TIMEOUT = 40;
    public static final int SPIN = 48;
    public static final int PEER_POLICY = 56;
    public static final int MAX_PEERS = 60;
    public static final int CLUSTER_KEY_FILE = 64;
    public static final int NETWORK = 72;
    public static final int ZOOKEEPER = 80;
    public static final int IDENTITY_FILE = 88;
    public static final int TRUST_FILE = 96;
    public static final int ENCRYPT = 104;
  }

  /** ripc_service_options. */
  public static final class ServiceOptions {
    private ServiceOptions() {}

    public static final int BYTES = 48;
    public static final int ID = 8;
    public static final int NAME = 16;
    public static final int TAKEOVER = 24;
    public static final int QUEUE_MESSAGES = 28;
    public static final int QUEUE_BYTES = 32;
    public static final int MAX_SENDERS = 36;
    public static final int MAX_MESSAGES = 40;
  }

  /** ripc_item. */
  public static final class Item {
    private Item() {}

    public static final int BYTES = 24;
    public static final int DATA = 0;
    public static final int SIZE = 8;
    public static final int KIND = 16;
    public static final int RETURN_INDEX = 20;
  }

  /** ripc_outgoing. */
  public static final class OutgoingMessage {
    private OutgoingMessage() {}

    public static final int BYTES = 16;
    public static final int ITEMS = 0;
    public static final int COUNT = 8;
    public static final int TAG = 12;
  }

  /** ripc_return_buffer. */
  public static final class ReturnBuffer {
    private ReturnBuffer() {}

    public static final int BYTES = 16;
    public static final int DATA = 0;
    public static final int SIZE = 8;
  }

  /** ripc_group_outcome. */
  public static final class Outcome {
    private Outcome() {}

    public static final int BYTES = 32;
    public static final int MEMBERS = 8;
    public static final int TAKEN = 12;
    public static final int MISSED = 16;
    public static final int MISSED_CAPACITY = 24;
  }

  /** ripc_send_options. */
  public static final class SendOptions {
    private SendOptions() {}

    public static final int BYTES = 72;
    public static final int TAG = 8;
    public static final int RETURN_COUNT = 12;
    public static final int RETURNS = 16;
    public static final int TIMEOUT = 24;
    public static final int CALLBACK = 32;
    public static final int USER = 40;
    public static final int REQUEST_ID = 48;
    public static final int OUTCOME = 56;
    public static final int FLAGS = 64;

    public static final int UNORDERED = 1;
  }

  /** ripc_item_view. */
  public static final class View {
    private View() {}

    public static final int BYTES = 40;
    public static final int DATA = 0;
    public static final int SIZE = 8;
    public static final int KIND = 16;
    public static final int STATUS = 20;
    public static final int COOKIE = 24;
    public static final int RETURN_INDEX = 32;
    public static final int COPIED = 36;

    public static final int SHORT = 0;
    public static final int WINDOW = 1;
    public static final int LENT = 2;
    public static final int RETURNED = 3;
    public static final int FAILED = 4;
  }

  /** ripc_record: a received message in written form. */
  public static final class Record {
    private Record() {}

    public static final int BYTES = 56;
    public static final int RECORD_SIZE = 0;
    public static final int TAG = 4;
    public static final int SOURCE = 8;
    public static final int IN_REPLY_TO = 16;
    public static final int MESSAGE = 24;
    public static final int ITEM_COUNT = 32;
    public static final int RETURN_COUNT = 36;
    public static final int PEER_IDENTITY = 40;
    public static final int PEER_IS_ON_THIS_HOST = 48;
    public static final int PEER_USER = 52;

    /** The largest record of a message, without the bytes of its items. */
    public static final int LARGEST = BYTES + MAX_ITEMS * View.BYTES + MAX_RETURNS * 8;
  }

  /** ripc_notification. */
  public static final class NotificationName {
    private NotificationName() {}

    public static final int BYTES = 16;
    public static final int SERVICE = 0;
    public static final int HANDLE = 8;
  }

  /** ripc_service_info. */
  public static final class Info {
    private Info() {}

    public static final int BYTES = 2352;
    public static final int ID = 8;
    public static final int INCARNATION = 16;
    public static final int PID = 24;
    public static final int NAME = 28;
    public static final int TRANSPORT = 236;
    public static final int ADDRESS = 252;
    public static final int REASON = 1276;
    public static final int OTHERS = 1436;
    public static final int GROUP_COUNT = 1836;
    public static final int GROUPS = 1840;
  }

  /** ripc_rail_info. */
  public static final class Rail {
    private Rail() {}

    public static final int BYTES = 232;
    public static final int DEVICE = 8;
    public static final int LOCAL = 72;
    public static final int PEER = 136;
    public static final int BYTES_SENT = 200;
    public static final int BYTES_RECEIVED = 208;
    public static final int RATE = 216;
    public static final int SPARE = 224;
    public static final int CONNECTIONS = 228;
  }

  /** ripc_finding. */
  public static final class Finding {
    private Finding() {}

    public static final int BYTES = 864;
    public static final int LEVEL = 8;
    public static final int SUBJECT = 12;
    public static final int TEXT = 60;
    public static final int ADVICE = 460;
  }

  /** ripc_pool_statistics: its size, then 12 counters. */
  public static final int POOL_STATISTICS = 104;

  /** ripc_security_statistics: its size, then 6 counters. */
  public static final int SECURITY_STATISTICS = 56;

  /** ripc_service_statistics: its size, then 24 counters. */
  public static final int SERVICE_STATISTICS = 200;

  /** ripc_rpc_options. */
  public static final class RpcOptions {
    private RpcOptions() {}

    public static final int BYTES = 32;
    public static final int SLOTS = 8;
    public static final int QUEUE = 12;
    public static final int MAX_SESSIONS = 16;
    public static final int WORKERS = 20;
    public static final int WORKER_QUEUE = 24;
    public static final int RECORDED = 28;
  }

  /** ripc_call_options. */
  public static final class CallOptions {
    private CallOptions() {}

    public static final int BYTES = 64;
    public static final int TIMEOUT = 8;
    public static final int RETURN_COUNT = 16;
    public static final int RETURNS = 24;
    public static final int PARENT = 32;
    public static final int LOAN_ENDED = 40;
    public static final int LOAN_USER = 48;
    public static final int IDEMPOTENT = 56;
  }

  /** ripc_rpc_record: what comes before the {@link Record} of a request or an answer. */
  public static final class CallRecord {
    private CallRecord() {}

    public static final int BYTES = 40;
    public static final int KIND = 0;
    public static final int CODE = 4;
    public static final int USER = 8;
    public static final int REQUEST = 16;
    public static final int DEADLINE = 24;
    public static final int OUTCOME = 32;
    public static final int STATUS = 36;

    public static final int END = 1;

    public static final int LARGEST = BYTES + Record.LARGEST;
  }

  /** ripc_latency. */
  public static final class Latency {
    private Latency() {}

    public static final int BYTES = 384;
    public static final int COUNT = 0;
    public static final int MINIMUM = 8;
    public static final int MEAN = 16;
    public static final int P50 = 24;
    public static final int P90 = 32;
    public static final int P99 = 40;
    public static final int P999 = 48;
    public static final int MAXIMUM = 56;
    public static final int HISTOGRAM = 64;
    public static final int RANGES = 40;
  }

  /** ripc_rpc_method_statistics. */
  public static final class MethodStatistics {
    private MethodStatistics() {}

    public static final int BYTES = 1104;
    public static final int METHOD = 8;
    public static final int CALLS = 16;
    public static final int ANSWERED = 24;
    public static final int DID_NOT_RUN = 32;
    public static final int MAY_HAVE_RUN = 40;
    public static final int REPEATS = 48;
    public static final int STATUSES = 56;
    public static final int CALL_TIME = 312;
    public static final int REQUESTS_RUN = 696;
    public static final int REQUESTS_REFUSED = 704;
    public static final int REQUESTS_EXPIRED = 712;
    public static final int REQUEST_TIME = 720;
  }

  /** ripc_rpc_statistics: its size, then 13 counters. */
  public static final int RPC_STATISTICS = 112;
}
