// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.management.MonitorInfo;
import java.lang.management.ThreadInfo;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.libripc.internal.Binding;
import org.libripc.internal.NativeBinding;
import org.libripc.rpc.Rpc;
import org.libripc.rpc.RpcCall;

/** A message takes as many native calls as docs/java.md says. */
class NativeCallsTest extends PairTest {
  private static final int COUNT = 100;

  private final Map<String, Integer> calls = new ConcurrentHashMap<>();
  private final Set<String> monitors = ConcurrentHashMap.newKeySet();
  private volatile boolean looksForMonitors;
  private NativeBinding real;

  private static void use(NativeBinding binding) throws ReflectiveOperationException {
    Field loaded = Binding.class.getDeclaredField("loaded");
    loaded.setAccessible(true);
    loaded.set(null, binding);
  }

  /** Contexts that are opened from now on count their calls. */
  @BeforeEach
  void count() throws ReflectiveOperationException {
    real = Binding.get();
    use(
        (NativeBinding)
            Proxy.newProxyInstance(
                NativeBinding.class.getClassLoader(),
                new Class<?>[] {NativeBinding.class},
                (proxy, method, arguments) -> {
                  calls.merge(method.getName(), 1, Integer::sum);
                  if (looksForMonitors) lookForMonitors(method.getName());
                  try {
                    return method.invoke(real, arguments);
                  } catch (InvocationTargetException failure) {
                    throw failure.getCause();
                  }
                }));
  }

  private void lookForMonitors(String call) {
    long[] self = {Thread.currentThread().getId()};
    ThreadInfo found = ManagementFactory.getThreadMXBean().getThreadInfo(self, true, false)[0];
    for (MonitorInfo each : found.getLockedMonitors()) {
      if (each.getClassName().startsWith("org.libripc."))
        monitors.add(call + " in " + each.getLockedStackFrame());
    }
  }

  @AfterEach
  void stopCounting() throws ReflectiveOperationException {
    use(real);
  }

  private void assertCalls(int received) {
    assertEquals(COUNT, calls.remove("send"));
    int receives = calls.remove("receiveBatch");
    // Over a network a receive may have to look again.
    assertTrue(isShm() ? receives == received : receives >= received, receives + " receives");
    assertEquals(Map.of(), calls);
  }

  @Test
  void aShortMessageTakesOneToSendAndOneToReceive() throws Exception {
    ByteBuffer payload = pattern(64, 1);
    try (Ripc one = context();
        Ripc other = context();
        Service from = one.register();
        Service to = other.register()) {
      Outgoing message = new Outgoing();
      MessageBatch batch = to.batch(16, 4096);
      from.send(to.id(), message.add(payload));
      receive(to).close();
      calls.clear();
      for (int round = 0; round < COUNT; ++round) {
        from.send(to.id(), message.clear().tag(round).add(payload));
        while (to.receive(batch, LIMIT, TimeUnit.SECONDS) == 0) {}
        assertEquals(payload, batch.get(0).item(0));
        assertEquals(from.id(), batch.get(0).source());
      }
      batch.close();
      assertCalls(COUNT);
    }
  }

  // A virtual thread that waits for a monitor keeps its carrier.
  @Test
  void noMonitorIsHeldAroundOne() throws Exception {
    looksForMonitors = true;
    ByteBuffer direct = ByteBuffer.allocateDirect(100_000);
    try (Ripc one = context();
        Ripc other = context();
        Service from = one.register();
        Service to = other.register();
        RipcSelector selector = RipcSelector.open()) {
      RipcSelector.Key key = selector.register(from, null);
      key.requestRoom(to.id());
      key.findRoom();
      selector.select(0, TimeUnit.SECONDS);
      to.lending(true);
      ReturnBuffer returned = new ReturnBuffer(one.registerMemory(direct));
      from.send(to.id(), new Outgoing().attach(returned));
      try (Message request = receive(to)) {
        to.reply(request, new Outgoing().addReturn(bytes("back"), 0)).get(LIMIT, TimeUnit.SECONDS);
      }
      receive(from).close();
      Ticket withdrawn = from.send(to.id(), new Outgoing().borrow(direct));
      withdrawn.poll();
      withdrawn.cancel(false);
      ReceiveWindow window = new ReceiveWindow(other.lease(1000));
      to.post(window);
      to.withdraw(window);
      from.send(to.id(), bytes("last"));
    }
    assertEquals(Set.of(), monitors);
  }

  @Test
  void messagesThatAreThereTakeOneToReceiveThemAll() throws Exception {
    ByteBuffer payload = pattern(64, 1);
    int together = 10;
    try (Ripc one = context();
        Ripc other = context();
        Service from = one.register();
        Service to = other.register()) {
      from.send(to.id(), payload);
      receive(to).close();
      calls.clear();
      for (int round = 0; round < COUNT / together; ++round) {
        for (int count = 0; count < together; ++count) from.send(to.id(), payload);
        for (int count = 0; count < together; ++count) {
          try (Message received = receive(to)) {
            assertEquals(payload, received.item(0));
          }
        }
      }
      assertCalls(COUNT / together);
    }
  }

  @Test
  void aShortCallTakesOneEachWay() throws Exception {
    ByteBuffer payload = pattern(64, 1);
    try (Ripc one = context();
        Ripc other = context();
        Rpc caller = Rpc.open(one.register());
        Rpc answerer = Rpc.open(other.register())) {
      ServiceId to = answerer.service().id();
      answerer.on(1, request -> request.reply(request.item(0)));
      for (int round = 0; round <= COUNT; ++round) {
        if (round == 1) calls.clear(); // the first call opens the session
        RpcCall call = caller.call(to, 1, payload);
        while (answerer.run(isShm() && round > 0 ? 0 : 1, TimeUnit.MILLISECONDS) == 0)
          caller.run(round > 0 ? 0 : 1, TimeUnit.MILLISECONDS);
        while (!call.isDone()) caller.run(LIMIT, TimeUnit.SECONDS);
        call.join().close();
      }
      assertEquals(COUNT, calls.remove("rpcCall"));
      assertEquals(COUNT, calls.remove("requestReply"));
      int runs = calls.remove("rpcRunRecords");
      // Over a network a run may have to look again.
      assertTrue(isShm() ? runs == 2 * COUNT : runs >= 2 * COUNT, runs + " runs");
      assertEquals(Map.of(), calls);
    }
  }
}
