// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import org.libripc.internal.Binding;
import org.libripc.internal.Layout;
import org.libripc.internal.Layout.ContextOptions;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;

/**
 * The options of a context. Options that are not set come from the environment (README,
 * "Settings"). A builder may open several contexts. One thread at a time.
 */
public final class RipcBuilder {
  /** Which users' processes on this host a context talks to; root is always admitted. */
  public enum Peers {
    /** Processes of the same user. */
    SAME_USER,
    /** Also processes whose effective group is this process's. */
    SAME_GROUP,
    /** All processes that the runtime directory's permissions admit. */
    ANY
  }

  /** Whether a context talks to other hosts. */
  public enum Network {
    /** Only with a cluster key ({@code ripc key new}), with hosts that have the same one. */
    KEY,
    /** Without a key: everybody who reaches this host's ports is a peer. */
    OPEN,
    /** Never. */
    OFF
  }

  /** Whether traffic between hosts over sockets is encrypted. */
  public enum Encrypt {
    /** Never; with a cluster key it is authenticated. */
    OFF,
    /** With every peer that has a cluster key and does not choose {@link #OFF}. */
    AUTO,
    /** Always: without encryption there is no connection, and RDMA is not used. */
    REQUIRED
  }

  private static final long DEFAULT_SPIN = 50_000;
  private static final long DEFAULT_KEPT = 64L << 20;

  private String runtimeDirectory;
  private String transports;
  private String staticResolver;
  private long poolLimit;
  private long keptPoolBytes = DEFAULT_KEPT;
  private long resolveTimeout = Layout.DEFAULT_TIME;
  private long spin = -1;
  private Peers peers;
  private int maxPeers;
  private String clusterKeyFile;
  private Network network;
  private String zookeeper;
  private String identityFile;
  private Encrypt encrypt;
  private String trustFile;

  RipcBuilder() {}

  /** The directory where services of one host find each other. */
  public RipcBuilder runtimeDirectory(Path directory) {
    runtimeDirectory = directory.toString();
    return this;
  }

  /** Which transports to use, the preferred one first. */
  public RipcBuilder transports(String... names) {
    transports = String.join(",", names);
    return this;
  }

  /** A file of known services, asked first. */
  public RipcBuilder staticResolver(Path file) {
    staticResolver = file.toString();
    return this;
  }

  /**
   * The most bytes of registered pool memory; 1/4 of the machine's memory if it is not set.
   *
   * @throws IllegalArgumentException if it is not positive
   */
  public RipcBuilder poolLimit(long bytes) {
    poolLimit = positive(bytes);
    return this;
  }

  /**
   * The most bytes of released leases that are kept for the next lease of the same size; 64 MiB if
   * it is not set.
   *
   * @throws IllegalArgumentException if it is negative
   */
  public RipcBuilder keepReleased(long bytes) {
    if (bytes < 0) throw new IllegalArgumentException("the number of bytes is negative");
    keptPoolBytes = bytes;
    return this;
  }

  /**
   * The time within which looking up an unknown ID ends: at most an hour, 1 second if it is not
   * set.
   *
   * @throws IllegalArgumentException if it is not positive
   */
  public RipcBuilder resolveTimeout(long time, TimeUnit unit) {
    resolveTimeout = positive(unit.toNanos(time));
    return this;
  }

  /**
   * The longest time that a wait polls before it sleeps; 0 or more.
   *
   * @throws IllegalArgumentException if it is negative
   */
  public RipcBuilder spin(long time, TimeUnit unit) {
    if (time < 0) throw new IllegalArgumentException("the time is negative");
    spin = unit.toNanos(time);
    return this;
  }

  /** Which users' processes the context talks to. */
  public RipcBuilder peers(Peers policy) {
    peers = policy;
    return this;
  }

  /**
   * The most processes that are connected at once; 4096 if it is not set.
   *
   * @throws IllegalArgumentException if it is not positive
   */
  public RipcBuilder maxPeers(int count) {
    maxPeers = (int) positive(count);
    return this;
  }

  /** The key that other hosts must have too. */
  public RipcBuilder clusterKeyFile(Path file) {
    clusterKeyFile = file.toString();
    return this;
  }

  /**
   * The context's identity, which makes it a member of a trust file; {@code ripc key new
   * --identity}.
   */
  public RipcBuilder identityFile(Path file) {
    identityFile = file.toString();
    return this;
  }

  /** The members of the cluster, and what each may be; {@code ripc trust}. */
  public RipcBuilder trustFile(Path file) {
    trustFile = file.toString();
    return this;
  }

  /** Whether the context encrypts; {@link Encrypt#AUTO} if neither this nor RIPC_ENCRYPT is set. */
  public RipcBuilder encrypt(Encrypt wanted) {
    encrypt = wanted;
    return this;
  }

  /**
   * Whether the context talks to other hosts; {@link Network#KEY} if neither this nor RIPC_NETWORK
   * is set.
   */
  public RipcBuilder network(Network access) {
    network = access;
    return this;
  }

  /**
   * The ZooKeeper ensemble in which services are published and looked up: HOST:PORT,...[/FOLDER];
   * none if neither this nor RIPC_ZOOKEEPER is set.
   */
  public RipcBuilder zookeeper(String servers) {
    zookeeper = servers;
    return this;
  }

  static long positive(long value) {
    if (value <= 0) throw new IllegalArgumentException(value + " is not more than 0");
    return value;
  }

  /**
   * Opens a context: opens the runtime directory, removes what dead processes left there, and
   * starts a thread.
   *
   * @throws RipcException with the reason
   * @throws UnsatisfiedLinkError if the native library does not load; says why, and what to install
   */
  public Ripc open() {
    return new Ripc(this);
  }

  /**
   * Checks this machine and this process for what a context with these options needs. Returns even
   * if something is broken; the levels show that. It takes some tenths of a second. With a
   * ZooKeeper ensemble it takes some seconds, and one more for each server that does not answer.
   *
   * @throws RipcException {@link Status#INVALID_ARGUMENT}, {@link Status#NO_MEMORY} or {@link
   *     Status#SYSTEM}
   */
  public List<Finding> diagnose() {
    List<Finding> findings = new ArrayList<>();
    withOptions(Binding.get(), options -> findings.addAll(Ripc.diagnose(options)));
    return findings;
  }

  long keptPoolBytes() {
    return keptPoolBytes;
  }

  /** The spin time in nanoseconds, as the native library understands the setting. */
  long effectiveSpin() {
    if (spin >= 0) return spin;
    String variable = System.getenv("RIPC_SPIN_US");
    try {
      return variable == null || variable.isEmpty()
          ? DEFAULT_SPIN
          : Long.parseLong(variable) * 1000;
    } catch (NumberFormatException notANumber) {
      return DEFAULT_SPIN;
    }
  }

  void create(NativeBinding binding, long context) {
    withOptions(binding, options -> RipcException.check(binding.contextCreate(options, context)));
  }

  /** Makes a call with the address of a ripc_context_options. */
  private void withOptions(NativeBinding binding, LongConsumer call) {
    NativeBlock block = new NativeBlock(ContextOptions.BYTES);
    binding.contextOptionsInit(block.address);
    NativeBlock directory = NativeBlock.of(runtimeDirectory);
    NativeBlock names = NativeBlock.of(transports);
    NativeBlock resolver = NativeBlock.of(staticResolver);
    NativeBlock keyFile = NativeBlock.of(clusterKeyFile);
    NativeBlock ensemble = NativeBlock.of(zookeeper);
    NativeBlock identity = NativeBlock.of(identityFile);
    NativeBlock trust = NativeBlock.of(trustFile);
    ByteBuffer options = block.bytes;
    options.putLong(ContextOptions.RUNTIME_DIRECTORY, NativeBlock.addressOf(directory));
    options.putLong(ContextOptions.TRANSPORTS, NativeBlock.addressOf(names));
    options.putLong(ContextOptions.STATIC_RESOLVER, NativeBlock.addressOf(resolver));
    options.putLong(ContextOptions.POOL_LIMIT, poolLimit);
    options.putLong(ContextOptions.RESOLVE_TIMEOUT, resolveTimeout);
    if (spin >= 0) options.putLong(ContextOptions.SPIN, spin);
    if (peers != null) options.putInt(ContextOptions.PEER_POLICY, peers.ordinal());
    options.putInt(ContextOptions.MAX_PEERS, maxPeers);
    options.putLong(ContextOptions.CLUSTER_KEY_FILE, NativeBlock.addressOf(keyFile));
    if (network != null) options.putInt(ContextOptions.NETWORK, network.ordinal());
    options.putLong(ContextOptions.ZOOKEEPER, NativeBlock.addressOf(ensemble));
    options.putLong(ContextOptions.IDENTITY_FILE, NativeBlock.addressOf(identity));
    options.putLong(ContextOptions.TRUST_FILE, NativeBlock.addressOf(trust));
    if (encrypt != null) options.putInt(ContextOptions.ENCRYPT, encrypt.ordinal());
    try {
      call.accept(block.address);
    } finally {
      NativeBlock.keep(block, directory, names, resolver, keyFile, ensemble, identity, trust);
    }
  }
}
