// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.ToIntFunction;
import org.libripc.internal.Binding;
import org.libripc.internal.Guard;
import org.libripc.internal.Layout;
import org.libripc.internal.NativeBinding;
import org.libripc.internal.NativeBlock;

/**
 * The library in this process: a context with its thread, its pool of registered memory and its
 * services. Two of them are two independent peers. {@link #open}, or {@link #builder} for what is
 * not the default.
 *
 * <p>It is to be closed; what belongs to it is closed with it.
 */
public final class Ripc implements AutoCloseable {
  // Contexts that are closed, but live on for buffers of theirs that the garbage collector has not
  // found yet.
  private static final int MOST_LINGERING = 4;
  private static final AtomicInteger LINGERING = new AtomicInteger();

  private final NativeBinding binding = Binding.get();
  private final long handle;
  private final long spinNanos;
  private final Guard guard = new Guard(() -> Callbacks.outside(this::destroy));
  private final BufferPool pool;
  private final Registrations registrations = new Registrations(this);
  private final Set<Service> services = ConcurrentHashMap.newKeySet();
  private final Set<MessageHandle> handles = ConcurrentHashMap.newKeySet();
  private final Map<Long, ReceiveWindow> windows = new ConcurrentHashMap<>();
  private final AtomicLong nextWindow = new AtomicLong(1);

  Ripc(RipcBuilder options) {
    collectLingering();
    NativeBlock created = new NativeBlock(8);
    options.create(binding, created.address);
    handle = created.bytes.getLong(0);
    spinNanos = options.effectiveSpin();
    pool = new BufferPool(this, options.keptPoolBytes());
  }

  /** With the defaults and what the environment says. */
  public static Ripc open() {
    return builder().open();
  }

  /** To open one with other options. */
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

  /** How many objects were found unclosed by the garbage collector since this JVM started. */
  public static long leaksReported() {
    return Leaks.reported();
  }

  /**
   * Checks this machine and this process for what libripc needs; {@link RipcBuilder#diagnose} does
   * so with other options.
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
        visitor -> RipcException.check(Binding.get().diagnose(options, visitor)));
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

  /** To register a service with a name, a number or other options. */
  public ServiceBuilder service() {
    return new ServiceBuilder(this);
  }

  /**
   * Finds a living service.
   *
   * @throws RipcException.NoService if there is none, within the resolve timeout
   */
  public ServiceInfo resolve(ServiceId id) {
    return info(info -> binding.resolve(handle, id.value(), info));
  }

  /**
   * The same by name. {@link Status#NAME_COLLISION} if the ID of the name is held by a service of
   * another name.
   */
  public ServiceInfo resolve(String name) {
    ServiceId.ofName(name);
    NativeBlock text = NativeBlock.of(name);
    ServiceInfo found = info(info -> binding.resolveName(handle, text.address, info));
    NativeBlock.keep(text);
    return found;
  }

  /**
   * Finds the path that a send to a living service takes, making it if need be, and what speaks
   * against the others.
   */
  public ServiceInfo findPath(ServiceId id) {
    return info(info -> binding.findPath(handle, id.value(), info));
  }

  private ServiceInfo info(ToIntFunction<Long> call) {
    NativeBlock info = new NativeBlock(Layout.Info.BYTES);
    info.bytes.putLong(0, Layout.Info.BYTES);
    enter();
    try {
      RipcException.check(call.applyAsInt(info.address));
    } finally {
      guard.leave();
    }
    return ServiceInfo.read(info.bytes);
  }

  /** Every living service that the resolvers can list. */
  public List<ServiceInfo> services() {
    return infos(visitor -> RipcException.check(binding.listServices(handle, visitor)));
  }

  /** Every living member of a group. */
  public List<ServiceInfo> members(ServiceId group) {
    return infos(
        visitor -> RipcException.check(binding.groupMembers(handle, group.value(), visitor)));
  }

  private List<ServiceInfo> infos(LongConsumer call) {
    List<ServiceInfo> found = new ArrayList<>();
    enter();
    try {
      visit(Layout.Info.BYTES, bytes -> found.add(ServiceInfo.read(bytes)), call);
    } finally {
      guard.leave();
    }
    return found;
  }

  // ---- Memory ----

  /**
   * Leases memory of the pool.
   *
   * @param size in bytes, from 0
   * @throws RipcException {@link Status#NO_MEMORY} if the pool's limit is reached
   */
  public RegisteredBuffer lease(int size) {
    if (size < 0) throw new IllegalArgumentException("the size is negative");
    return new RegisteredBuffer(pool.lease(size), size);
  }

  /**
   * Whether a buffer lies, from its position to its limit, in memory that was leased from this
   * context and is in use: then a message that is sent from it keeps the memory, and the lease may
   * be released before the message was taken.
   */
  public boolean isLeased(ByteBuffer buffer) {
    if (!buffer.isDirect()) return false;
    return pool.holds(binding.addressOf(buffer) + buffer.position(), buffer.remaining());
  }

  /**
   * Registers memory of the application: a direct buffer, from its position to its limit, such as a
   * mapped file. It is then counted like a leased one: {@link RegisteredBuffer#close} does not take
   * it away from messages, windows and return buffers that have it. Messages that were sent from it
   * before it was registered are not counted, and cancelled when its registration ends.
   *
   * <p>The memory stays the application's: it is kept reachable, and must stay mapped, while {@link
   * RegisteredBuffer#isInUse}. A read-only buffer can be sent from and nothing else. The same
   * memory may be registered again, in whole or in part; each is to be closed.
   *
   * @throws IllegalArgumentException if it is not direct, or empty
   */
  public RegisteredBuffer registerMemory(ByteBuffer direct) {
    if (!direct.isDirect() || !direct.hasRemaining()) {
      throw new IllegalArgumentException(
          "only a direct buffer of at least one byte can be registered: lease() one");
    }
    RegisteredRange range = registrations.add(direct);
    return new RegisteredBuffer(range, range.capacity);
  }

  /** How long waits poll before they sleep, in nanoseconds. */
  public long spinNanos() {
    return spinNanos;
  }

  /** What the pool holds. */
  public PoolStatistics poolStatistics() {
    NativeBlock block = new NativeBlock(Layout.POOL_STATISTICS);
    block.bytes.putLong(0, Layout.POOL_STATISTICS);
    enter();
    try {
      RipcException.check(binding.poolStatistics(handle, block.address));
    } finally {
      guard.leave();
    }
    ByteBuffer b = block.bytes;
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
        b.getLong(96));
  }

  /**
   * Posts a window for any service of this context; it is used after those of the service itself.
   */
  public void post(ReceiveWindow window) {
    enter();
    try {
      postAt(this, window, (data, size, id) -> binding.contextWindowPost(handle, data, size, id));
      // It was closed meanwhile, and may not have seen this one.
      if (guard.isClosed()) withdrawAll();
    } finally {
      guard.leave();
    }
  }

  /**
   * Takes back a window that was posted here.
   *
   * @return false if it was not posted, or is in use
   */
  public boolean withdraw(ReceiveWindow window) {
    enter();
    try {
      return withdrawAt(
          this, window, (id, count) -> binding.contextWindowWithdraw(handle, id, count));
    } finally {
      guard.leave();
    }
  }

  interface PostCall {
    int post(long data, long size, long id);
  }

  interface WithdrawCall {
    int withdraw(long id, long count);
  }

  void postAt(Object owner, ReceiveWindow window, PostCall call) {
    long id = nextWindow.getAndIncrement();
    window.posting(owner, id);
    windows.put(id, window);
    ByteBuffer buffer = window.buffer();
    int status = call.post(binding.addressOf(buffer), buffer.capacity(), id);
    if (status != 0) {
      windows.remove(id);
      window.returned();
      throw RipcException.ofLastCall(status);
    }
  }

  boolean withdrawAt(Object owner, ReceiveWindow window, WithdrawCall call) {
    long id = window.idAt(Objects.requireNonNull(owner));
    if (id == 0) return false;
    NativeBlock count = new NativeBlock(8);
    RipcException.check(call.withdraw(id, count.address));
    if (count.bytes.getLong(0) == 0) return false;
    windowFilled(id);
    return true;
  }

  /**
   * The windows that are posted here are the application's again, but those in use. A closed
   * context must not refer to them: their memory keeps it.
   */
  private void withdrawAll() {
    for (ReceiveWindow window : windows.values()) {
      if (window.idAt(this) != 0)
        withdrawAt(this, window, (id, count) -> binding.contextWindowWithdraw(handle, id, count));
    }
  }

  /** The last thing of a service, when it is not registered any more. The context is left. */
  void gone(Service service) {
    services.remove(service);
    // What it received into is not in use any more.
    if (guard.isClosed()) withdrawAll();
    guard.leave();
  }

  /** The window is the application's again; null if it was never posted. */
  ReceiveWindow windowFilled(long id) {
    ReceiveWindow window = windows.remove(id);
    if (window != null) window.returned();
    return window;
  }

  void windowsReturnedOf(Object owner) {
    windows.forEach(
        (id, window) -> {
          if (window.idAt(owner) == id) windowFilled(id);
        });
  }

  // ---- For the other classes ----

  NativeBinding binding() {
    return binding;
  }

  long handle() {
    return handle;
  }

  Guard guard() {
    return guard;
  }

  BufferPool pool() {
    return pool;
  }

  Registrations registrations() {
    return registrations;
  }

  Set<Service> registered() {
    return services;
  }

  Set<MessageHandle> handles() {
    return handles;
  }

  /** To be left afterwards. */
  void enter() {
    if (!guard.tryEnter()) throw closed();
  }

  static RipcException closed() {
    return new RipcException.Closed("This context was closed: open another one.");
  }

  // ---- The end ----

  /**
   * Closes every service, message and ticket of the context and ends it. Windows that are posted
   * here are the application's again. Memory that the application still has buffers of stays mapped
   * until the garbage collector has found that they are gone, and a rest of the context with it.
   *
   * <p>From inside a callback it returns before that is done.
   */
  @Override
  public void close() {
    if (!guard.tryEnter()) return;
    if (!guard.close()) {
      guard.leave();
      return;
    }
    LINGERING.incrementAndGet();
    Callbacks.outside(
        () -> {
          for (Service service : services) service.close();
          for (MessageHandle each : handles) each.close();
          withdrawAll();
          pool.close();
          registrations.close();
          guard.leave();
        });
  }

  private void destroy() {
    binding.contextDestroy(handle);
    windowsReturnedOf(this);
    LINGERING.decrementAndGet();
  }

  private static void collectLingering() {
    for (int attempt = 0; attempt < 20 && LINGERING.get() > MOST_LINGERING; ++attempt) {
      if (attempt % 10 == 0) System.gc();
      try {
        Thread.sleep(5);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        return;
      }
    }
  }
}
