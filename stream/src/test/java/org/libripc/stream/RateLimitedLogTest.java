// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.slf4j.Logger;

/** Warnings that come again and again. */
class RateLimitedLogTest {
  @Test
  void atMostOneInASecondIsLogged() {
    List<String> logged = new ArrayList<>();
    Logger log =
        (Logger)
            Proxy.newProxyInstance(
                Logger.class.getClassLoader(),
                new Class<?>[] {Logger.class},
                (proxy, method, arguments) -> {
                  logged.add(method.getName());
                  return null;
                });
    long began = System.nanoTime();
    RateLimitedLog warnings = new RateLimitedLog(log);
    for (int count = 0; count < 100; ++count) warnings.warn("as a test wants it", null);
    long seconds = (System.nanoTime() - began) / 1_000_000_000;
    assertEquals(100, logged.size());
    long warned = logged.stream().filter("warn"::equals).count();
    assertEquals(true, warned >= 1 && warned <= 1 + seconds, warned + " warnings");
  }
}
