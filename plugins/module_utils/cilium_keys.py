# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which keys the values of Cilium's charts have, by version: their own schema takes any key, so a typo would be passed over without a word.

The table is made by tests/tools/cilium_keys.py. Words are keys: ``key:types*@versions{keys below}``. Types are b(oolean), i(nteger), n(umber), s(tring),
a (list), o(bject) and 0 (null), as the chart's schema has them; without types it has none, or only an object. Below a key with ``*`` anything may stand.
Versions are letters of ``VERSIONS``; a key without them has those of the key above it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, List, Optional, Tuple

# Letter: (chart, version). rke2-cilium is the chart that RKE2 bundles.
VERSIONS: Dict[str, Tuple[str, str]] = {
    "a": ("cilium", "1.18.12"),
    "b": ("cilium", "1.19.4"),
    "c": ("cilium", "1.19.6"),
    "d": ("cilium", "1.20.0"),
    "x": ("rke2-cilium", "1.19.402"),
    "y": ("rke2-cilium", "1.19.601"),
    "z": ("rke2-cilium", "1.20.102"),
}
TYPES: Dict[str, str] = {
    "b": "true or false", "i": "a whole number", "n": "a number", "s": "a text", "a": "a list", "o": "a mapping", "0": "null",
}

_TABLE = """\
MTU:i affinity* agent:b agentNotReadyTaintKey:s aksbyocni{enabled:b} alibabacloud{enabled:b nodeSpec@bcdxyz{securityGroupTags:a securityGroups:a vSwitchTags:a
vSwitches:a}} annotateK8sNode:b annotations* apiRateLimit:0s authentication{enabled:b gcInterval:s mutual{connectTimeout:s port:i spire{adminSocketPath:s
agentSocketPath:s annotations* connectionTimeout:s enabled:b install{agent{affinity* annotations* image{digest:s override:0s pullPolicy:s repository:s tag:s
useDigest:b} labels* nodeSelector* podSecurityContext* priorityClassName:s resources* securityContext* serviceAccount{create:b name:s}
skipKubeletVerification:b tolerations:a} enabled:b existingNamespace:b initImage{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b} namespace:s
server{affinity* annotations* ca{keyType:s subject{commonName:s country:s organization:s}} dataStorage{accessMode:s enabled:b size:s storageClass:0s}
image{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b} initContainers:a labels* nodeSelector* podSecurityContext* priorityClassName:s
resources* securityContext* service{annotations* labels* type:s} serviceAccount{create:b name:s} tolerations:a}} serverAddress:0s trustDomain:s}} queueSize:i
rotatedIdentitiesQueueSize:i} autoDirectNodeRoutes:bs azure{enabled:b nodeSpec@bcdxyz{azureInterfaceName:s}} bandwidthManager{bbr:b bbrHostNamespaceOnly:b
enabled:b} bgpControlPlane{enabled:b legacyOriginAttribute{enabled:b} routerIDAllocation{ipPool:s mode:s} secretsNamespace{create:b name:s}
statusReport{enabled:b}} bpf{authMapMax:0i autoMount{enabled:b} ctAccounting:b ctAnyMax:0i ctTcpMax:0i datapathMode:s disableExternalIPMitigation:b
distributedLRU{enabled:b} enableTCX:b events{default{burstLimit:0i rateLimit:0i} drop{enabled:b} policyVerdict{enabled:b} trace{enabled:b}}
hostLegacyRouting:0b lbAlgorithmAnnotation:b lbExternalClusterIP:b lbMapMax:0i lbModeAnnotation:b lbSourceRangeAllTypes:b mapDynamicSizeRatio:0ns
masquerade:0b monitorAggregation:s monitorFlags:s monitorInterval:s monitorTraceIPOption:0i@bcdxyz natMax:0i neighMax:0i nodeMapMax:0i policyMapMax:0i
policyMapPressureMetricsThreshold:0n@bcdxyz policyStatsMapMax:0i preallocateMaps:b root:s tproxy:0b vlanBypass:0a} bpfClockProbe:b certgen{affinity*
annotations* cronJob@bcdxyz{failedJobsHistoryLimit:i successfulJobsHistoryLimit:i} enforceCAValidityThroughoutLeavesDuration:b@dz extraVolumeMounts:a
extraVolumes:a generateCA:b image{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b} nodeSelector* podLabels* priorityClassName:s resources*
tolerations:a ttlSecondsAfterFinished:0i} cgroup{autoMount{enabled:b resources*} hostRoot:s} ciliumEndpointSlice{enabled:b rateLimits:a} cleanBpfState:b
cleanState:b cluster{id:i name:s} clustermesh{annotations* apiserver{affinity* etcd{init{extraArgs:a extraEnv:a resources*} lifecycle* resources*
securityContext* storageMedium} etcdQPS:i@dz extraArgs:a extraEnv:a extraVolumeMounts:a extraVolumes:a healthPort:i image{digest:s override:0s pullPolicy:s
repository:s tag:s useDigest:b} kvstoremesh{enabled:b etcdQPS:i@dz extraArgs:a extraEnv:a extraVolumeMounts:a healthPort:i kvstoreMode:s lifecycle*
readinessProbe* resources* securityContext*} lifecycle* metrics{enabled:b etcd{enabled:b mode:s port:i} kvstoremesh{enabled:b port:i} port:i
serviceMonitor{annotations* enabled:b etcd{interval:s metricRelabelings:0a relabelings:0a scrapeTimeout:0s} interval:s kvstoremesh{interval:s
metricRelabelings:0a relabelings:0a scrapeTimeout:0s} labels* metricRelabelings:0a relabelings:0a scrapeTimeout:0s}} nodeSelector* podAnnotations*
podDisruptionBudget{enabled:b maxUnavailable:0is minAvailable:0is unhealthyPodEvictionPolicy:0s} podLabels* podSecurityContext* priorityClassName:s
readinessProbe* replicas:i resources* securityContext* service{annotations* enableSessionAffinity externalTrafficPolicy externallyCreated:b@bcdxyz
internalTrafficPolicy labels* loadBalancerClass:0s loadBalancerIP:0s loadBalancerSourceRanges:a nodePort:i type:s} terminationGracePeriodSeconds:i
tls{admin@abcxy{cert:s key:s} authMode:s auto{certManagerIssuerRef* certValidityDuration:i enabled:b method:s privateKey*@dz schedule:s@dz
server@dz{extraDnsNames:a extraIpAddresses:a} subject*@dz} client@a{cert:s key:s} enableSecrets:b@abcxy remote@abcxy{cert:s key:s} server@abcxy{cert:s
extraDnsNames:a extraIpAddresses:a key:s}} tolerations:a topologySpreadConstraints:a updateStrategy*} cacheTTL:s@bcdxyz config{clusters:ao domain:s enabled:b}
defaultGlobalNamespace:b@dz enableEndpointSliceSynchronization:b enableMCSAPISupport:b@abcxy maxConnectedClusters:i
mcsapi@bcdxyz{corednsAutoConfigure{affinity* annotations* coredns{clusterDomain:s clustersetDomain:s configMapName:s deploymentName:s namespace:s
serviceAccountName:s} enabled:b extraArgs:a extraVolumeMounts:a extraVolumes:a nodeSelector* podLabels* priorityClassName:s resources* tolerations:a
ttlSecondsAfterFinished:i} enabled:b installCRDs:b} policyDefaultLocalCluster:b useAPIServer:b} cni{binPath:s chainingMode:0s chainingTarget:0s
confFileMountPath:s confPath:s configMap:s configMapKey:s customConf:b enableRouteMTUForCNIChaining:b exclusive:b hostConfDirMountPath:s install:b
iptablesRemoveAWSRules:b logFile:s resources* uninstall:b} commonLabels:0o* configDriftDetection{driftChecker:b enabled:b ignoredKeys:a}
connectivityProbeFrequencyRatio:0n conntrackGCInterval:s conntrackGCMaxInterval:s crdWaitTimeout:s customCalls@a{enabled:b} daemon{allowedConfigOverrides:0s
blockedConfigOverrides:0s configSources:0s enableSourceIPVerification:0b runPath:s} dashboards{annotations* enabled:b label:s labelValue:s namespace:0s}
datapathPlugins@dz{enabled:b stateDir:s} debug{enabled:b metricsSamplingInterval:0s verbose:0s} defaultLBServiceIPAM:s devices:0as
directRoutingSkipUnreachable:b disableEndpointCRD:b dnsPolicy:s dnsProxy{dnsRejectResponseCode:s enableDnsCompression:b endpointMaxIpPerHostname:i
idleConnectionGracePeriod:s maxDeferredConnectionDeletes:i minTtl:i preAllocateIdentities:b preCache:s proxyPort:i proxyResponseMaxDelay:s
socketLingerTimeout:i} egressGateway{enabled:b reconciliationTriggerInterval:s} enableCriticalPriorityClass:b enableIPv4BIGTCP:b enableIPv4Masquerade:0b
enableIPv6BIGTCP:b enableIPv6Masquerade:b enableInternalTrafficPolicy:b enableLBIPAM:b enableMasqueradeRouteSource:b enableNoServiceEndpointsRoutable:b@bcdxyz
enableNonDefaultDenyPolicies:b enableXTSocketFallback:b encryption{enabled:b ipsec{encryptedOverlay:b@abcxy interface:s keyFile:s keyRotationDuration:s
keyWatcher:b mountPath:s secretName:s} nodeEncryption:b strictMode{allowRemoteNodeIdentities:b@abcxy cidr:s@abcxy egress@bcdxyz{allowRemoteNodeIdentities:b
cidr:s enabled:b} enabled:b@abcxy ingress@bcdxyz{enabled:b}} type:s wireguard{persistentKeepalive:s} ztunnel@bcdxyz{affinity* annotations* ca@dz{type}
caAddress:s extraEnv:a extraVolumeMounts:a extraVolumes:a healthPort:i image{digest:0s override:0s pullPolicy:s repository:s tag:s useDigest:b}
minReadySeconds:i@dz nodeSelector* podAnnotations* podLabels* priorityClassName:0s readinessProbe* resources* secrets{bootstrapRootCert:0s}
terminationGracePeriodSeconds:i tolerations:a updateStrategy*}} endpointHealthChecking{enabled:b} endpointLockdownOnMapOverflow:b
endpointPolicyUpdateTimeoutDuration:0s endpointRoutes{enabled:bs} eni{awsEnablePrefixDelegation:b awsReleaseExcessIPs:b ec2APIEndpoint:s enabled:b eniTags*
gcInterval:s gcTags* iamRole:s instanceTagsFilter:a nodeSpec@bcdxyz{deleteOnTermination:0b disablePrefixDelegation:b excludeInterfaceTags:a
firstInterfaceIndex:0i securityGroupTags:a securityGroups:a subnetIDs:a subnetTags:a usePrimaryAddress:b} subnetIDsFilter:a subnetTagsFilter:a}
envoy{affinity* annotations* baseID:i bootstrapConfigMap:0s clusterMaxConnections:i@bcdxyz clusterMaxPendingRequests:i@dz clusterMaxRequests:i@bcdxyz
connectTimeoutSeconds:i debug{admin{enabled:b port:i}} dnsPolicy:0s enabled:0b extraArgs:a extraContainers:a extraEnv:a extraHostPathMounts:a
extraVolumeMounts:a extraVolumes:a healthPort:i httpRetryCount:i httpUpstreamLingerTimeout:0i idleTimeoutDurationSeconds:i image{digest:s override:0s
pullPolicy:s repository:s tag:s useDigest:b} initContainers:a@bcdxyz initialFetchTimeoutSeconds:i livenessProbe* log{accessLogBufferSize:0i
accessLogEnabled:b@dz defaultLevel format:0s format_json:0o* path:s} maxConcurrentRetries:i maxConnectionDurationSeconds:i
maxGlobalDownstreamConnections:i@bcdxyz maxRequestsPerConnection:i minReadySeconds:i@dz nodeLocality@dz{enabled:b} nodeSelector* podAnnotations* podLabels*
podSecurityContext* policyRestoreTimeoutDuration:0s priorityClassName:0s prometheus{enabled:b port:s serviceMonitor{annotations* enabled:b interval:s labels*
metricRelabelings:0a relabelings:a scrapeTimeout:0s}} readinessProbe* resources* rollOutPods:b securityContext* startupProbe{enabled:b failureThreshold:i
initialDelaySeconds:i@dz periodSeconds:i timeoutSeconds:i@dz} streamIdleTimeoutDurationSeconds:i terminationGracePeriodSeconds:i tolerations:a updateStrategy*
useOriginalSourceAddress:b@bcdxyz xdsMode@dz xffNumTrustedHopsL7PolicyEgress:i xffNumTrustedHopsL7PolicyIngress:i} envoyConfig{enabled:b retryInterval:s
secretsNamespace{create:b name:s}} etcd{enabled:b endpoints:a ssl:b} extraArgs:a extraConfig* extraContainers:a extraEnv:a extraHostPathMounts:a
extraInitContainers:a extraVolumeMounts:a extraVolumes:a forceDeviceDetection:b gatewayAPI{enableAlpn:b enableAppProtocol:b enableProxyProtocol:b enabled:b
externalTrafficPolicy:s gatewayClass{create:bs} hostNetwork{enabled:b nodes{matchLabels*}} secretsNamespace{create:b name:s sync:b} useRemoteAddress:0b@dz
xffNumTrustedHops:i} gke{enabled:b} global* healthCheckICMPFailureThreshold:i healthChecking:b healthPort:i hostFirewall{enabled:b} hubble{annotations*
dropEventEmitter{enabled:b interval:s reasons:a} enabled:b export{dynamic{config{configMapName:s content:a createConfigMap:b} enabled:b}
static{aggregationInterval:s@bcdxyz allowList:a denyList:a enabled:b fieldAggregate:a@bcdxyz fieldMask:a fileCompress:b fileMaxBackups:i fileMaxSizeMb:i
filePath:s}} hostUsers:0b@dz listenAddress:s metrics{dashboards{annotations* enabled:b label:s labelValue:s namespace:0s} dynamic{config{configMapName:s
content:a createConfigMap:b} enabled:b} enableOpenMetrics:b enabled:0a port:i serviceAnnotations* serviceMonitor{annotations* enabled:b interval:s jobLabel:s
labels* metricRelabelings:0a relabelings:a scrapeTimeout:0s tlsConfig*} tls{enabled:b server{cert:s existingSecret:s extraDnsNames:a extraIpAddresses:a key:s
mtls{enabled:b key:s name:0 useSecret:b}}}} networkPolicyCorrelation{enabled:b} peerService{clusterDomain:s targetPort:i} preferIpv6:b redact{enabled:b
http{headers{allow:a deny:a} urlQuery:b userInfo:b} kafka@abcxy{apiKey:b}} relay{affinity* annotations* enabled:b extraEnv:a extraVolumeMounts:a
extraVolumes:a gops{enabled:b port:i} image{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b} listenHost:s listenPort:s logOptions{format:0s
level:0s} nodeSelector* podAnnotations* podDisruptionBudget{enabled:b maxUnavailable:0is minAvailable:0is unhealthyPodEvictionPolicy:0s} podLabels*
podSecurityContext* pprof{address:s blockProfileRate:i@bcdxyz enabled:b mutexProfileFraction:i@bcdxyz port:i} priorityClassName:s prometheus{enabled:b port:i
serviceMonitor{annotations* enabled:b interval:s labels* metricRelabelings:0a relabelings:0a scrapeTimeout:0s}} replicas:i resources* retryTimeout:0s
rollOutPods:b securityContext* service{nodePort:i type:s} sortBufferDrainTimeout:0s sortBufferLenMax:0i terminationGracePeriodSeconds:i tls{client{cert:s
existingSecret:s key:s} server{cert:s enabled:b existingSecret:s extraDnsNames:a extraIpAddresses:a key:s mtls:b relayName:s}} tolerations:a
topologySpreadConstraints:a updateStrategy*} skipUnknownCGroupIDs:0b socketPath:s tls{auto{certManagerIssuerRef* certValidityDuration:i enabled:b method:s
privateKey*@dz schedule:s subject*@dz} enabled:b server{cert:s existingSecret:s extraDnsNames:a extraIpAddresses:a key:s}} ui{affinity* annotations*
backend{extraEnv:a extraVolumeMounts:a extraVolumes:a image{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b} livenessProbe*@abcxy
readinessProbe*@abcxy resources* securityContext*} baseUrl:s enabled:b frontend{extraEnv:a extraVolumeMounts:a extraVolumes:a image{digest:s override:0s
pullPolicy:s repository:s tag:s useDigest:b} resources* securityContext* server{ipv6{enabled:b}}} ingress{annotations* className:s enabled:b hosts:a labels*
tls:a} labels* nodeSelector* podAnnotations* podDisruptionBudget{enabled:b maxUnavailable:0is minAvailable:0is unhealthyPodEvictionPolicy:0s} podLabels*
priorityClassName:s replicas:i rollOutPods:b securityContext* service{annotations* labels* nodePort:i type:s} standalone{enabled:b tls{certsVolume*}}
tls{client{cert:s existingSecret:s key:s}} tmpVolume*@bcdxyz tolerations:a topologySpreadConstraints:a updateStrategy*}} identityAllocationMode:s
identityChangeGracePeriod:s identityManagementMode image{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b} imagePullSecrets:a
ingressController{default:b defaultSecretName:0s defaultSecretNamespace:0s enableProxyProtocol:b enabled:b enforceHttps:b hostNetwork{enabled:b httpPort:i@dz
httpsPort:i@dz nodes{matchLabels*} sharedListenerPort:i tlsPassthroughPort:i@dz} ingressLBAnnotationPrefixes:a loadbalancerMode:s secretsNamespace{create:b
name:s sync:b} service{allocateLoadBalancerNodePorts:0b annotations* externalTrafficPolicy:s insecureNodePort:0i labels* loadBalancerClass:0s
loadBalancerIP:0s name:s secureNodePort:0i type:s} useRemoteAddress:0b@dz xffNumTrustedHops:i@dz} initResources* installNoConntrackIptablesRules:b
ipMasqAgent{enabled:b} ipam{ciliumNodeUpdateRate:s installUplinkRoutesForDelegatedIPAM:b mode:s multiPoolPreAllocation:s nodeSpec@bcdxyz{ipamMaxAllocate:0i
ipamMinAllocate:0i ipamPreAllocate:0i ipamStaticIPTags:a} operator{autoCreateCiliumPodIPPools* clusterPoolIPv4MaskSize:i clusterPoolIPv4PodCIDRList:as
clusterPoolIPv6MaskSize:i clusterPoolIPv6PodCIDRList:as externalAPILimitBurstSize:0i externalAPILimitQPS:0n}} iptablesRandomFully:b ipv4{enabled:b}
ipv4NativeRoutingCIDR:s ipv6{enabled:b} ipv6NativeRoutingCIDR:s k8s{apiServerURLs:0s@dz requireIPv4PodCIDR:b requireIPv6PodCIDR:b}
k8sClientExponentialBackoff{backoffBaseSeconds:i backoffMaxDurationSeconds:i enabled:b} k8sClientRateLimit{burst:0i operator{burst:0i qps:0i} qps:0i}
k8sClusterNetworkPolicy@dz{enabled:b} k8sNetworkPolicy{enabled:b} k8sServiceHost:s k8sServiceHostRef{key:0s name:0s} k8sServiceLookupConfigMapName:0s
k8sServiceLookupNamespace:0s k8sServicePort:is keepDeprecatedLabels:b keepDeprecatedProbes:b kubeConfigPath:s kubeProxyReplacement:bs
kubeProxyReplacementHealthzBindAddr:s l2NeighDiscovery{enabled:b} l2announcements{enabled:b} l2podAnnouncements{enabled:b interface:s@abx
interfacePattern:s@cdyz} l7Proxy:b livenessProbe* loadBalancer{acceleration:s algorithm:s dsrDispatch:s l7{algorithm:s backend:s ports:a} mode:s
serviceTopology:b@bcdxyz} localRedirectPolicies{addressMatcherCIDRs:0a enabled:b} localRedirectPolicy:b logSystemLoad:b maglev* minReadySeconds:i@dz
monitor{enabled:b} name:s namespaceOverride:0s nat{mapStatsEntries:i mapStatsInterval:s} nat46x64Gateway{enabled:b} nativeRoutingCIDRFromClusterPool:b@dz
nodeIPAM{enabled:b} nodePort{addresses:0as autoProtectPortRange:b bindProtection:b enableDynamicSourceLookup:b@dz enableHealthCheck:b
enableHealthCheckLoadBalancerIP:b enabled:b@a} nodeSelector* nodeSelectorLabels:b nodeinit{affinity* annotations* bootstrapFile:s enabled:b extraEnv:a
extraVolumeMounts:a extraVolumes:a image{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b} minReadySeconds:i@dz nodeSelector* podAnnotations*
podLabels* podSecurityContext* prestop{postScript:s preScript:s} priorityClassName:s resources* securityContext* startup{postScript:s preScript:s}
tolerations:a updateStrategy* waitForCloudInit:b@bcdxyz} operator{affinity* annotations* dashboards{annotations* enabled:b label:s labelValue:s namespace:0s}
dnsPolicy:s enabled:b endpointGCInterval:s extraArgs:a extraEnv:a extraHostPathMounts:a extraVolumeMounts:a extraVolumes:a hostNetwork:b hostUsers:b@dz
identityGCInterval:s identityHeartbeatTimeout:s image{alibabacloudDigest:s awsDigest:s azureDigest:s genericDigest:s override:0s pullPolicy:s repository:s
suffix:s tag:s useDigest:b} nodeGCInterval:s nodeSelector* podAnnotations* podDisruptionBudget{enabled:b maxUnavailable:0is minAvailable:0is
unhealthyPodEvictionPolicy:0s} podLabels* podSecurityContext* pprof{address:s blockProfileRate:i@bcdxyz enabled:b mutexProfileFraction:i@bcdxyz port:i}
priorityClassName:s prometheus{enabled:b metricsService:b port:i serviceMonitor{annotations* enabled:b interval:s jobLabel:s labels* metricRelabelings:0a
relabelings:0a scrapeTimeout:0s} tls@bcdxyz{enabled:b server{existingSecret:s mtls{enabled:b}}}} removeNodeTaints:b replicas:i resources* rollOutPods:b
securityContext* setNodeNetworkStatus:b setNodeTaints:0b skipCRDCreation:b tolerations:0a topologySpreadConstraints:a unmanagedPodWatcher{intervalSeconds:i
restart:b selector:0s@bcdxyz} updateStrategy*} pmtuDiscovery{enabled:b packetizationLayerPMTUDMode:s@bcdxyz} podAnnotations* podLabels* podSecurityContext*
policyCIDRMatchMode:0as policyDenyResponse:s@bcdxyz policyEnforcementMode:s portmapPlugin@xyz{image{repository tag}} pprof{address:s blockProfileRate:i@bcdxyz
enabled:b mutexProfileFraction:i@bcdxyz port:i} preferIpv6:b@dz preflight{affinity* annotations* enabled:b envoy{image{digest:s override:0s pullPolicy:s
repository:s tag:s useDigest:b}} extraEnv:a extraVolumeMounts:a extraVolumes:a image{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b}
nodeSelector* podAnnotations* podDisruptionBudget{enabled:b maxUnavailable:0is minAvailable:0is unhealthyPodEvictionPolicy:0s} podLabels* podSecurityContext*
priorityClassName:s readinessProbe* resources* securityContext* terminationGracePeriodSeconds:i tofqdnsPreCache:s@abcxy tolerations:a updateStrategy*
validateCNPs:b} priorityClassName:s prometheus{controllerGroupMetrics:a enabled:b metrics:0a metricsService:b port:i serviceMonitor{annotations* enabled:b
interval:s jobLabel:s labels* metricRelabelings:0a relabelings:a scrapeTimeout:0s trustCRDsExist:b}} rbac{create:b} readinessProbe*
resourceQuotas{cilium{hard{pods:s}} enabled:b operator{hard{pods:s}}} resources* rollOutCiliumPods:b routingMode:s scheduling{mode} sctp{enabled:b}
secretsNamespaceAnnotations* secretsNamespaceLabels*@bcdxyz securityContext* serviceAccounts{cilium{annotations* automount:b create:b name:s}
clustermeshApiserver{annotations* automount:b create:b name:s} clustermeshcertgen{annotations* automount:b create:b name:s} corednsMCSAPI@bcdxyz{annotations*
automount:b create:b name:s} envoy{annotations* automount:b create:b name:s} hubblecertgen{annotations* automount:b create:b name:s} nodeinit{annotations*
automount:b create:b enabled:b name:s} operator{annotations* automount:b create:b name:s} preflight{annotations* automount:b create:b name:s}
relay{annotations* automount:b create:b name:s} ui{annotations* automount:b create:b name:s} ztunnel@bcdxyz{annotations* automount:b create:b name:s}}
serviceNoBackendResponse:s sleepAfterInit:b socketLB{enabled:b hostNamespaceOnly:b terminatePodConnections:b tracing:b} standaloneDnsProxy@bcdxyz{annotations*
automountServiceAccountToken:b debug:b enabled:b image{digest:s override:0s pullPolicy:s repository:s tag:s useDigest:b} minReadySeconds:i@dz nodeSelector*
rollOutPods:b serverPort:i tolerations:a updateStrategy*} startupProbe{failureThreshold:i periodSeconds:i} svcSourceRangeCheck:b@a synchronizeK8sNodes:b
sysctlfix{enabled:b} terminationGracePeriodSeconds:i tls{ca{cert:s certValidityDuration:i key:s} caBundle{enabled:b key:s name:s useSecret:b}
readSecretsOnlyFromSecretsNamespace:0b secretSync{enabled:0b} secretsBackend:0s secretsNamespace{create:b name:s}} tmpVolume*@bcdxyz tolerations:a
tunnelPort:i tunnelProtocol:s tunnelSourcePortRange:s underlayProtocol:s updateStrategy* upgradeCompatibility:0s vtep{cidr:s enabled:b endpoint:s mac:s
mask:s} waitForKubeProxy:b wellKnownIdentities{enabled:b}
"""


@dataclass
class Key:
    """One key of the values. :ivar types: letters of ``TYPES``; empty: any. :ivar free: anything may stand below it."""

    types: str = ""
    versions: FrozenSet[str] = frozenset(VERSIONS)
    free: bool = False
    below: "Dict[str, Key]" = field(default_factory=dict)


def _parse(text: str) -> Dict[str, Key]:
    top = Key()
    stack: List[Key] = [top]
    for word in re.findall(r"[^\s{}]+|[{}]", text):
        if word == "{":
            stack.append(list(stack[-1].below.values())[-1])
        elif word == "}":
            stack.pop()
        else:
            name, _at, versions = word.partition("@")
            name, star, _rest = name.partition("*")
            name, _colon, types = name.partition(":")
            stack[-1].below[name] = Key(types, frozenset(versions) if versions else stack[-1].versions, bool(star))
    return top.below


KEYS: Dict[str, Key] = _parse(_TABLE)


def letter(version: Tuple[int, ...], chart: str) -> Optional[str]:
    """The version of the table to judge a chart by: the newest one that is not newer, of the same minor version; None where there is none."""
    best: Optional[Tuple[Tuple[int, ...], str]] = None
    oldest: Optional[Tuple[Tuple[int, ...], str]] = None
    for name, (whose, text) in VERSIONS.items():
        here = tuple(int(part) for part in text.split("."))
        here = (*here[:2], here[2] // 100 if here[2] >= 100 else here[2])
        if whose != chart or here[:2] != version[:2]:
            continue
        if here <= version and (best is None or here > best[0]):
            best = (here, name)
        if oldest is None or here < oldest[0]:
            oldest = (here, name)
    chosen = best or oldest
    return None if chosen is None else chosen[1]


__all__ = ("KEYS", "TYPES", "VERSIONS", "Key", "letter")
