// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/** Takes the streams that other services open. */
public interface StreamAcceptor {
  /**
   * An admitted service has opened a stream. The stream is accepted when this returns, or when it
   * calls {@link ByteStream#accept}, which it must do before it writes. Runs in a thread of the
   * executor; may block.
   *
   * @throws Exception ends the stream, and is logged
   */
  void opened(ByteStream stream) throws Exception;
}
