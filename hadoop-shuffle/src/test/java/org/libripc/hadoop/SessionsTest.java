// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Each request counts once. */
class SessionsTest {
  private final Sessions sessions = new Sessions(3);

  private byte nonces;

  private byte[] begin(String job) {
    return sessions.begin(job, new byte[] {++nonces});
  }

  @Test
  void aRepeatedBeginIsNone() {
    byte[] session = sessions.begin("job_1_1", new byte[] {1});
    assertNull(sessions.begin("job_1_1", new byte[] {1}));
    assertEquals(1, sessions.count());
    assertEquals("job_1_1", sessions.jobOf(session));
    for (byte nonce = 2; nonce < 4; ++nonce) sessions.begin("job_1_1", new byte[] {nonce});
    assertNull(sessions.begin("job_1_1", new byte[] {1}), "one of the last three");
  }

  @Test
  void eachNumberCountsOnce() {
    byte[] session = begin("job_1_1");
    assertTrue(sessions.isNew(session, 1));
    assertFalse(sessions.isNew(session, 1));
    assertTrue(sessions.isNew(session, 5));
    assertTrue(sessions.isNew(session, 3), "requests may overtake each other");
    assertFalse(sessions.isNew(session, 3));
    assertTrue(sessions.isNew(session, 1000));
    assertFalse(sessions.isNew(session, 4), "too old to be known");
    assertFalse(sessions.isNew(session, 0));
    assertFalse(sessions.isNew(session, -1));
    assertTrue(sessions.isNew(session, Long.MAX_VALUE));
    assertFalse(sessions.isNew(session, Long.MAX_VALUE));
  }

  @Test
  void nothingIsTakenTwiceInAnyOrder() {
    byte[] session = begin("job_1_1");
    Random random = new Random(1);
    Set<Long> taken = new HashSet<>();
    long highest = 1;
    for (int round = 0; round < 100_000; ++round) {
      long number = Math.max(1, highest + random.nextInt(200) - 150);
      boolean isNew = sessions.isNew(session, number);
      if (isNew) assertTrue(taken.add(number), "taken twice: " + number);
      if (!isNew && highest - number < 64) assertTrue(taken.contains(number), "refused: " + number);
      highest = Math.max(highest, number);
    }
  }

  @Test
  void theLeastRecentlyUsedEnds() {
    byte[] first = begin("job_1_1");
    byte[] second = begin("job_1_1");
    begin("job_1_1");
    assertEquals("job_1_1", sessions.jobOf(first));
    begin("job_1_1");
    assertNull(sessions.jobOf(second));
    assertFalse(sessions.isNew(second, 1));
    assertEquals(3, sessions.count());
  }

  @Test
  void theyEndWithTheirJob() {
    byte[] ended = begin("job_1_1");
    byte[] other = begin("job_1_2");
    sessions.endJob("job_1_1");
    assertNull(sessions.jobOf(ended));
    assertEquals("job_1_2", sessions.jobOf(other));
  }
}
