// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.LongConsumer;
import java.util.function.LongToIntFunction;
import java.util.function.ToIntFunction;
import org.libripc.internal.Binding;
import org.libripc.internal.Layout;
import org.libripc.internal.Leaks;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;

/**
 * The library in this process: a context with its thread, its pool of registered memory and its
 * services. Two contexts are two independent peers. Use {@link #open}, or {@link #builder} for
 * options other than the defaults.
 *
 * <p>Close it after use; everything that belongs to it is closed with it. If the application loses
 * it and its services, the garbage collector finds, closes and reports it.
 */
public final class Ripc implements AutoCloseable {
  /** What the garbage collector's net needs to know. */
  private record Net(RipcCore core, Throwable trace) implements Runnable {
    @Override
    public void run() {
      if (core.lose()) Leaks.report("Ripc", "", trace);
    }
  }

  private final NativeBinding binding = Binding.get();
  private final RipcCore core;
  private final Cleaner.Cleanable cleanable;

  Ripc(RipcBuilder options) {
    RipcCore.collectLingering();
    NativeBlock created = new NativeBlock(8);
    options.create(binding, created.address);
    core =
        new RipcCore(
            binding, created.bytes.getLong(0), options.effectiveSpin(), options.keptPoolBytes());
    cleanable = Leaks.CLEANER.register(this, new Net(core, Leaks.trace()));
  }

  /** Opens a context with the defaults and the settings from the environment. */
  public static Ripc open() {
    return builder().open();
  }

  /** A builder, to open a context with other options. */
  public static RipcBuilder builder() {
    return new RipcBuilder();
  }

  /** The version of the native library. */
  public static String version() {
    return Binding.get().version();
  }

  /** How native code is called: "jni" or "jna". */
  public static String bindingName() {
    return Binding.get().name();
  }

  /** How many unclosed objects the garbage collector has found since this JVM started. */
  public static long leaksReported() {
    return Leaks.reported();
  }

  /**
   * Checks this machine and this process for what a context needs; {@link RipcBuilder#diagnose}
   * does so with other options.
   */
  public static List<Finding> diagnose() {
    return builder().diagnose();
  }

  static List<Finding> diagnose(long options) {
    List<Finding> findings = new ArrayList<>();
    visit(
        Layout.Finding.BYTES,
        bytes ->
            findings.add(
                new Finding(
                    bytes.getInt(Layout.Finding.LEVEL),
                    NativeBlock.text(
                        bytes,
                        Layout.Finding.SUBJECT,
                        Layout.Finding.TEXT - Layout.Finding.SUBJECT),
                    NativeBlock.text(
                        bytes, Layout.Finding.TEXT, Layout.Finding.ADVICE - Layout.Finding.TEXT),
                    NativeBlock.text(
                        bytes,
                        Layout.Finding.ADVICE,
                        Layout.Finding.BYTES - Layout.Finding.ADVICE))),
        user -> RipcException.check(Binding.get().diagnose(options, user)));
    return findings;
  }

  private static void visit(
      int size, java.util.function.Consumer<ByteBuffer> reader, LongConsumer body) {
    Callbacks.visit(found -> reader.accept(Binding.get().view(found, size)), body);
  }

  // ---- Services ----

  /** Registers a service with a random ID. */
  public Service register() {
    return service().register();
  }

  /** A builder, to register a service with a name, a number or other options. */
  public ServiceBuilder service() {
    return new ServiceBuilder(this);
  }

  /**
   * Finds a living service.
   *
   * @throws RipcException.NoService if none is found within the resolve timeout
   */
  public ServiceInfo resolve(ServiceId id) {
    return info(info -> binding.resolve(core.handle(), id.value(), info));
  }

  /**
   * The same by name. {@link Status#NAME_COLLISION} if the ID of the name is held by a service of
   * another name.
   */
  public ServiceInfo resolve(String name) {
    ServiceId.ofName(name);
    NativeBlock text = NativeBlock.of(name);
    ServiceInfo found = info(info -> binding.resolveName(core.handle(), text.address, info));
    NativeBlock.keep(text);
    return found;
  }

  /**
   * Finds the path that a send to a living service takes, and makes it if necessary. The result
   * also says what speaks against the other paths.
   */
  public ServiceInfo findPath(ServiceId id) {
    return info(info -> binding.findPath(core.handle(), id.value(), info));
  }

  private ServiceInfo info(ToIntFunction<Long> call) {
    NativeBlock info = new NativeBlock(Layout.Info.BYTES);
    info.bytes.putLong(0, Layout.Info.BYTES);
    core.enter();
    try {
      RipcException.check(call.applyAsInt(info.address));
    } finally {
      core.leave(this);
    }
    return ServiceInfo.read(info.bytes);
  }

  /**
   * Watches the service with this ID from now on. The watcher is called when the service appears,
   * ends, appears again, and so on. It is also called if the service is there already. No message
   * needs to be sent: the end of a killed process is reported at once.
   */
  public ServiceWatch watch(ServiceId id, ServiceWatcher watcher) {
    return new ServiceWatch(this, core, id, Objects.requireNonNull(watcher), () -> {});
  }

  /**
   * Waits until a living service has this ID and a path to it works, so that the next send finds
   * it. Returns at once if it is there. Do not call it inside a callback, which would hold up the
   * event that it waits for.
   *
   * @throws RipcException when the time is over: what {@link #findPath} throws
   */
  public ServiceInfo waitService(ServiceId id, long timeout, TimeUnit unit)
      throws InterruptedException {
    CompletableFuture<ServiceInfo> found = new CompletableFuture<>();
    ServiceWatcher watcher =
        (status, info) -> {
          if (status == Status.OK) found.complete(info);
        };
    ServiceWatch watch =
        new ServiceWatch(
            this, core, id, watcher, () -> found.completeExceptionally(RipcCore.closed()));
    try {
      return found.get(timeout, unit);
    } catch (TimeoutException late) {
      return findPath(id);
    } catch (ExecutionException closed) {
      throw (RipcException) closed.getCause();
    } finally {
      watch.close();
    }
  }

  /**
   * The same by name. {@link Status#NAME_COLLISION} if the ID of the name is held by a service of
   * another name.
   */
  public ServiceInfo waitService(String name, long timeout, TimeUnit unit)
      throws InterruptedException {
    ServiceInfo found = waitService(ServiceId.ofName(name), timeout, unit);
    // The static resolver may not know the name.
    return found.name().isEmpty() || found.name().equals(name) ? found : resolve(name);
  }

  /** Every living service that the resolvers can list. */
  public List<ServiceInfo> services() {
    return infos(user -> RipcException.check(binding.listServices(core.handle(), user)));
  }

  /** Every living member of a group. */
  public List<ServiceInfo> members(ServiceId group) {
    return infos(
        user -> RipcException.check(binding.groupMembers(core.handle(), group.value(), user)));
  }

  /**
   * The rails that lead to the process of a living service. None on one host over shared memory.
   * The process that connected to the other one also sees rails without a connection: before the
   * first long item, or because they have failed. Finds the path if there is none.
   *
   * @throws RipcException as {@link #findPath}
   */
  public List<RailInfo> rails(ServiceId id) {
    return collect(
        Layout.Rail.BYTES,
        RailInfo::read,
        user -> RipcException.check(binding.listRails(core.handle(), id.value(), user)));
  }

  private List<ServiceInfo> infos(LongConsumer call) {
    return collect(Layout.Info.BYTES, ServiceInfo::read, call);
  }

  private <T> List<T> collect(int size, Function<ByteBuffer, T> reader, LongConsumer call) {
    List<T> found = new ArrayList<>();
    core.enter();
    try {
      visit(size, bytes -> found.add(reader.apply(bytes)), call);
    } finally {
      core.leave(this);
    }
    return found;
  }

  // ---- Memory ----

  /**
   * Leases memory of the pool.
   *
   * @param size in bytes, at least 0
   * @throws RipcException {@link Status#NO_MEMORY} if the pool's limit is reached
   */
  public RegisteredBuffer lease(int size) {
    if (size < 0) throw new IllegalArgumentException("the size is negative");
    try {
      return new RegisteredBuffer(core.pool().lease(size), size);
    } finally {
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Whether a buffer lies, from its position to its limit, in memory that was leased from this
   * context and is in use. A message that is sent from such a buffer keeps the memory, so the lease
   * may be released before the peer takes the message.
   */
  public boolean isLeased(ByteBuffer buffer) {
    if (!buffer.isDirect()) return false;
    return core.pool().holds(binding.addressOf(buffer) + buffer.position(), buffer.remaining());
  }

  /**
   * Registers memory of the application: a direct buffer, from its position to its limit, such as a
   * mapped file. Its users are then counted like those of a leased buffer: {@link
   * RegisteredBuffer#close} does not take it away from messages, windows and return buffers that
   * use it. Messages that were sent from it before it was registered are not counted, and are
   * cancelled when its registration ends.
   *
   * <p>The memory stays the application's: it is kept reachable, and must stay mapped, while {@link
   * RegisteredBuffer#isInUse}. A read-only buffer can only be sent from. The same memory may be
   * registered again, in whole or in part; each registration must be closed.
   *
   * @throws IllegalArgumentException if the buffer is not direct, or is empty
   */
  public RegisteredBuffer registerMemory(ByteBuffer direct) {
    if (!direct.isDirect() || !direct.hasRemaining()) {
      throw new IllegalArgumentException(
          "only a direct buffer of at least one byte can be registered: lease() one");
    }
    RegisteredRange range = core.registrations().add(direct);
    return new RegisteredBuffer(range, range.capacity);
  }

  /** The longest time that waits poll before they sleep, in nanoseconds. */
  public long spinNanos() {
    return core.spinNanos();
  }

  /** What the pool holds. */
  public PoolStatistics poolStatistics() {
    ByteBuffer b =
        filled(Layout.POOL_STATISTICS, block -> binding.poolStatistics(core.handle(), block));
    return new PoolStatistics(
        b.getLong(8),
        b.getLong(16),
        b.getLong(24),
        b.getLong(32),
        b.getLong(40),
        b.getLong(48),
        b.getLong(56),
        b.getLong(64),
        b.getLong(72),
        b.getLong(80),
        b.getLong(88),
        b.getLong(96),
        core.pool().bytesInUse());
  }

  /**
   * A structure of {@code size} bytes, which begins with its size, after the call has filled it.
   */
  private ByteBuffer filled(int size, LongToIntFunction call) {
    NativeBlock block = new NativeBlock(size);
    block.bytes.putLong(0, size);
    core.enter();
    try {
      RipcException.check(call.applyAsInt(block.address));
    } finally {
      core.leave(this);
    }
    return block.bytes;
  }

  /** Counters of what this context has refused. */
  public SecurityStatistics securityStatistics() {
    ByteBuffer b =
        filled(
            Layout.SECURITY_STATISTICS, block -> binding.securityStatistics(core.handle(), block));
    return new SecurityStatistics(
        b.getLong(8), b.getLong(16), b.getLong(24), b.getLong(32), b.getLong(40), b.getLong(48));
  }

  /**
   * Checks whether the trust file has changed.
   *
   * @throws RipcException if the file on the disk cannot be used, so that an older version stays in
   *     force
   */
  public void checkTrust() {
    core.enter();
    try {
      RipcException.check(binding.trustStatus(core.handle()));
    } finally {
      core.leave(this);
    }
  }

  /** Posts a window for any service of this context; it is used after the service's own windows. */
  public void post(ReceiveWindow window) {
    core.enter();
    try {
      core.postAt(
          core,
          window,
          (data, size, id) -> binding.contextWindowPost(core.handle(), data, size, id));
      // close() may have run meanwhile without seeing this window.
      if (core.guard().isClosed()) core.withdrawAll();
    } finally {
      core.leave(this);
    }
  }

  /**
   * Takes back a window that was posted here.
   *
   * @return false if it was not posted, or is in use
   */
  public boolean withdraw(ReceiveWindow window) {
    core.enter();
    try {
      return core.withdrawAt(
          core, window, (id, count) -> binding.contextWindowWithdraw(core.handle(), id, count));
    } finally {
      core.leave(this);
    }
  }

  RipcCore core() {
    return core;
  }

  /**
   * Closes every service, message and ticket of the context and ends it. Windows that are posted
   * here are the application's again. Memory over which the application still has buffers stays
   * mapped, with a remainder of the context, until the garbage collector finds that they are gone.
   *
   * <p>Inside a callback it returns before the close is done.
   */
  @Override
  public void close() {
    core.close();
    cleanable.clean();
  }
}
