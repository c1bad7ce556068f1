// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.io.File;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import javax.crypto.SecretKey;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.JobID;
import org.apache.hadoop.mapred.ShuffleHandler;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.token.SecretManager.InvalidToken;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.api.ApplicationTerminationContext;
import org.libripc.Ripc;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hadoop's shuffle service, which also serves map outputs over libripc. It is set as the class of
 * the auxiliary service {@code mapreduce_shuffle}. HTTP works as before, even if libripc cannot be
 * used.
 */
public class RipcShuffleHandler extends ShuffleHandler {
  private static final Logger LOG = LoggerFactory.getLogger(RipcShuffleHandler.class);

  private volatile ShuffleServer server;

  /** Made by the NodeManager. */
  public RipcShuffleHandler() {}

  @Override
  protected void serviceStart() throws Exception {
    super.serviceStart();
    Configuration conf = getConfig();
    if (!conf.getBoolean(Keys.ENABLED, true)) {
      LOG.info("The shuffle over libripc is off ({}); HTTP serves", Keys.ENABLED);
      return;
    }
    try {
      String name = Wire.serviceName(host(conf) + ":" + deserializeMetaData(getMetaData()));
      server = start(conf, name);
      LOG.info("The shuffle over libripc serves as {}", name);
    } catch (Exception | LinkageError problem) {
      LOG.error(
          "The shuffle over libripc does not start, HTTP serves alone: {}", problem.toString());
    }
  }

  private ShuffleServer start(Configuration conf, String name) {
    MapOutputs outputs =
        new MapOutputs(
            relative ->
                new File(getAuxiliaryLocalPathHandler().getLocalPathForRead(relative).toString()),
            new JobConf(conf),
            conf.getLong(Keys.INDEX_BYTES, 10L << 20),
            Keys.atLeast(1, conf, Keys.HANDLER_FILES, 1000));
    DirectoryReaders readers =
        new DirectoryReaders(
            Keys.atLeast(1, conf, Keys.READERS, 2), Keys.atLeast(1, conf, Keys.QUEUE, 256));
    HandlerMetrics metrics = DefaultMetricsSystem.instance().register(new HandlerMetrics());
    try {
      return new ShuffleServer(
          Keys.builder(conf, Ripc.builder()),
          name,
          jobs(),
          outputs,
          readers,
          new Sessions(Keys.atLeast(1, conf, Keys.SESSIONS, 10_000)),
          Keys.atLeast(Keys.LARGEST_PIECE, conf, Keys.UNDER_WAY, 128 << 20),
          metrics);
    } catch (Throwable failed) {
      DefaultMetricsSystem.instance().unregisterSource(HandlerMetrics.SOURCE);
      throw failed;
    }
  }

  private ShuffleServer.Jobs jobs() {
    return new ShuffleServer.Jobs() {
      @Override
      public SecretKey key(String job) {
        try {
          return secretManager.retrieveTokenSecret(job);
        } catch (InvalidToken unknown) {
          return null;
        }
      }

      @Override
      public String user(String job) {
        return userRsrc.get(job);
      }
    };
  }

  /** The host that the NodeManager has told the ResourceManager, and the master tells reducers. */
  static String host(Configuration conf) throws UnknownHostException {
    String told = conf.getTrimmed(Keys.HOST, "");
    if (!told.isEmpty()) return told;
    String address = conf.getTrimmed(YarnConfiguration.NM_ADDRESS, "");
    if (!conf.getTrimmed(YarnConfiguration.NM_BIND_HOST, "").isEmpty() && !address.isEmpty())
      return address.split(":")[0];
    InetSocketAddress listens =
        conf.getSocketAddr(
            YarnConfiguration.NM_ADDRESS,
            YarnConfiguration.DEFAULT_NM_ADDRESS,
            YarnConfiguration.DEFAULT_NM_PORT);
    InetSocketAddress reached = NetUtils.getConnectAddress(listens);
    if (reached.getAddress() == null) throw new UnknownHostException(reached.getHostString());
    return reached.getAddress().getCanonicalHostName();
  }

  @Override
  public void stopApplication(ApplicationTerminationContext context) {
    super.stopApplication(context);
    ShuffleServer running = server;
    ApplicationId application = context.getApplicationId();
    String job =
        new JobID(Long.toString(application.getClusterTimestamp()), application.getId()).toString();
    if (running != null) running.endJob(job);
  }

  @Override
  protected void serviceStop() throws Exception {
    ShuffleServer running = server;
    server = null;
    if (running != null) {
      running.close();
      DefaultMetricsSystem.instance().unregisterSource(HandlerMetrics.SOURCE);
    }
    super.serviceStop();
  }
}
