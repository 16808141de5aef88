// What the pages of spatial mechanisms need of three.js; see README.md.
export {
  BufferAttribute, BufferGeometry, CatmullRomCurve3, Color, DirectionalLight, DoubleSide, Group, HemisphereLight,
  LineBasicMaterial, LineSegments, Mesh, MeshStandardMaterial, PCFShadowMap, PerspectiveCamera, PlaneGeometry,
  Quaternion, Raycaster, Scene, ShadowMaterial, TubeGeometry, Vector2, Vector3, WebGLRenderer,
} from "three";
export { OrbitControls } from "three/addons/controls/OrbitControls.js";
export { toCreasedNormals } from "three/addons/utils/BufferGeometryUtils.js";
