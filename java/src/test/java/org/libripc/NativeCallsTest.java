// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.libripc.internal.Binding;
import org.libripc.internal.NativeBinding;

/** How many native calls a message takes: what docs/java.md says. */
class NativeCallsTest extends PairTest {
  private static final int COUNT = 100;

  private final Map<String, Integer> calls = new ConcurrentHashMap<>();
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
                  try {
                    return method.invoke(real, arguments);
                  } catch (InvocationTargetException failure) {
                    throw failure.getCause();
                  }
                }));
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
}
