// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.libripc.SurvivalWorld.direct;

import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.libripc.SurvivalWorld.Case;
import org.libripc.rpc.CallHandler;
import org.libripc.rpc.CallItems;
import org.libripc.rpc.CallOptions;
import org.libripc.rpc.CallResult;
import org.libripc.rpc.Request;
import org.libripc.rpc.RequestHandler;
import org.libripc.rpc.Rpc;
import org.libripc.rpc.RpcBuilder;
import org.libripc.rpc.RpcCall;

/**
 * Every public method with every kind of senseless argument, on objects that are open and closed.
 */
final class SurvivalSweep {
  private static final List<Class<?>> TYPES =
      List.of(
          Ripc.class,
          RipcBuilder.class,
          Service.class,
          ServiceBuilder.class,
          ServiceId.class,
          Outgoing.class,
          Message.class,
          MessageBatch.class,
          RegisteredBuffer.class,
          ReceiveWindow.class,
          ReturnBuffer.class,
          RipcSelector.class,
          RipcSelector.Key.class,
          Ticket.class,
          Rpc.class,
          RpcBuilder.class,
          RpcCall.class,
          Request.class,
          CallResult.class,
          CallOptions.class);

  // The exceptions that the documentation names.
  private static final List<Class<? extends Throwable>> ENDS =
      List.of(
          RipcException.class,
          IllegalArgumentException.class,
          IllegalStateException.class,
          NullPointerException.class,
          IndexOutOfBoundsException.class,
          UnsupportedOperationException.class,
          ReadOnlyBufferException.class,
          InterruptedException.class,
          CancellationException.class,
          NoSuchElementException.class);

  private enum Arguments {
    NOTHING,
    LEAST,
    MOST
  }

  private SurvivalSweep() {}

  static List<Case> all() {
    List<Case> cases = new ArrayList<>();
    for (Class<?> type : TYPES) {
      Stream<Executable> own =
          Stream.concat(
              Arrays.stream(type.getMethods())
                  .filter(each -> isOurs(each.getDeclaringClass(), type)),
              Arrays.stream(type.getConstructors()));
      own.filter(each -> Modifier.isPublic(each.getModifiers()) && !each.isSynthetic())
          .sorted(Comparator.comparing(Executable::toString))
          .forEach(each -> add(cases, type, each));
    }
    return cases;
  }

  /** Whether a method is the type's own, or comes from another type of this library. */
  private static boolean isOurs(Class<?> declares, Class<?> type) {
    return declares == type || declares == CallItems.class;
  }

  private static void add(List<Case> cases, Class<?> type, Executable method) {
    String name =
        type.getSimpleName()
            + "."
            + (method instanceof Constructor ? "new" : method.getName())
            + Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName).toList();
    cases.add(
        new Case(
            name,
            world -> {
              for (boolean closed : List.of(false, true)) {
                for (Arguments arguments : Arguments.values()) {
                  if (arguments.ordinal() > 0 && method.getParameterCount() == 0) continue;
                  call(world, type, method, arguments, closed);
                }
              }
            },
            "a result or an exception that is documented",
            thrown -> thrown == null));
  }

  private static void call(
      SurvivalWorld world, Class<?> type, Executable method, Arguments arguments, boolean closed)
      throws Throwable {
    try (Ripc ripc = world.open();
        Service service = ripc.register()) {
      Object target = targetOf(type, world, ripc, service);
      if (closed) {
        if (target instanceof AutoCloseable open) open.close();
        service.ripc().close();
      }
      Object[] values = new Object[method.getParameterCount()];
      for (int index = 0; index < values.length; ++index)
        values[index] = value(method.getParameterTypes()[index], arguments, service);
      // Ends any wait at once.
      Thread.currentThread().interrupt();
      if (method instanceof Method each) each.invoke(target, values);
      else ((Constructor<?>) method).newInstance(values);
    } catch (InvocationTargetException failure) {
      Throwable thrown = failure.getCause();
      if (ENDS.stream().noneMatch(each -> each.isInstance(thrown)))
        throw new AssertionError((closed ? "closed, " : "") + arguments + ": " + thrown, thrown);
    } finally {
      Thread.interrupted();
    }
  }

  private static Object targetOf(Class<?> type, SurvivalWorld world, Ripc ripc, Service service)
      throws Exception {
    if (type == Ripc.class) return ripc;
    if (type == RipcBuilder.class) return world.options();
    if (type == Service.class) return service;
    if (type == ServiceBuilder.class) return ripc.service();
    if (type == ServiceId.class) return service.id();
    if (type == Outgoing.class) return new Outgoing().add(direct(10));
    if (type == Message.class) {
      service.send(service.id(), new Outgoing().add(direct(10)));
      return world.receive(service);
    }
    if (type == MessageBatch.class) return service.batch(2, 100);
    if (type == RegisteredBuffer.class) return ripc.lease(100);
    if (type == ReceiveWindow.class) return new ReceiveWindow(direct(10));
    if (type == ReturnBuffer.class) return new ReturnBuffer(direct(10));
    if (type == RipcSelector.class) return RipcSelector.open();
    if (type.getPackage() == Rpc.class.getPackage()) return callTarget(type, ripc, service);
    if (type == RipcSelector.Key.class) return RipcSelector.open().register(service, null);
    return service.send(service.id(), new Outgoing().borrow(direct(10)));
  }

  private static Object callTarget(Class<?> type, Ripc ripc, Service service) throws Exception {
    if (type == RpcBuilder.class) return Rpc.of(service);
    if (type == CallOptions.class) return new CallOptions();
    Rpc rpc = Rpc.open(service);
    if (type == Rpc.class) return rpc;
    BlockingQueue<Request> kept = new LinkedBlockingQueue<>();
    rpc.on(1, request -> kept.add(request.keep()));
    RpcCall call = rpc.call(service.id(), 1, direct(10));
    if (type == RpcCall.class) return call;
    while (kept.isEmpty()) rpc.run(1, TimeUnit.SECONDS);
    Request request = kept.take();
    if (type == Request.class || type == CallItems.class) return request;
    request.reply(direct(10));
    while (!call.isDone()) rpc.run(1, TimeUnit.SECONDS);
    return call.join();
  }

  private static Object value(Class<?> type, Arguments arguments, Service service) {
    boolean least = arguments == Arguments.LEAST;
    boolean nothing = arguments == Arguments.NOTHING;
    if (type == int.class) return nothing ? 0 : least ? Integer.MIN_VALUE : Integer.MAX_VALUE;
    if (type == long.class) return nothing ? 0L : least ? Long.MIN_VALUE : Long.MAX_VALUE;
    if (type == boolean.class) return !least;
    if (nothing) return null;
    if (type == ByteBuffer.class)
      return least ? direct(0).asReadOnlyBuffer() : ByteBuffer.allocate(100_000);
    if (type == ByteBuffer[].class)
      return least ? new ByteBuffer[100] : new ByteBuffer[] {direct(100_000)};
    if (type == ServiceId.class) return least ? ServiceId.of(-1) : ServiceId.ofGroup(1);
    if (type == String.class) return least ? "" : "/".repeat(10_000);
    if (type == String[].class) return least ? new String[0] : new String[] {"pigeons"};
    if (type == Path.class) return Path.of(least ? "" : "/proc/self/mem");
    if (type == TimeUnit.class) return least ? TimeUnit.NANOSECONDS : TimeUnit.DAYS;
    if (type == ItemKind.class) return least ? ItemKind.RETURN : ItemKind.LONG;
    if (type == Service.class) return service;
    if (type == Outgoing.class) return new Outgoing().add(ByteBuffer.allocate(100_000));
    if (type == Outgoing[].class) return Array.newInstance(Outgoing.class, least ? 0 : 1000);
    if (type == MessageBatch.class) return service.isClosed() ? null : service.batch(1, 0);
    if (type == CallOptions.class) return new CallOptions().timeout(least ? -1 : 1, TimeUnit.DAYS);
    if (type == CallHandler.class) return (CallHandler) CallResult::close;
    if (type == RequestHandler.class) return (RequestHandler) Request::keep;
    if (type == Executor.class) return (Executor) Runnable::run;
    if (type == Status.class) return least ? Status.OK : Status.SYSTEM;
    if (type == ReceiveWindow.class) return new ReceiveWindow(direct(least ? 0 : 10));
    if (type == ReturnBuffer.class) return new ReturnBuffer(direct(least ? 0 : 10));
    if (type == Notification.class)
      return new Notification(ServiceId.of(least ? -1 : 1), least ? -1 : 0);
    return null;
  }
}
